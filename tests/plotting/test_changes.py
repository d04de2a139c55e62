"""The picture of a comparison. tests/promises/test_plot.py has its words."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from drawing import case, drawn_row, save

from kbench.analysis.files import load_sources
from kbench.plotting import Choices, plot


def test_the_margin_is_shaded_on_both_sides_of_no_change(tmp_path: Path) -> None:
    files = [save(tmp_path / f"{name}.csv", [drawn_row(case(256), session=s) for s in range(3)]) for name in "ab"]
    [picture] = plot(load_sources(files, ""), Choices(kind="change", margin=0.05))
    [band] = picture.figure.axes[0].patches
    box = band.get_window_extent().transformed(picture.figure.axes[0].transData.inverted())
    assert (box.x0, box.x1) == pytest.approx((-math.log(1.05), math.log(1.05)))
