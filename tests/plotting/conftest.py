"""Shared by the tests of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from drawing import Draw, save
from matplotlib.figure import Figure

from kbench.analysis.files import load_sources
from kbench.plotting import Choices, plot
from kbench.results.row import Row


@pytest.fixture
def draw(tmp_path: Path) -> Draw:
    """The figures of rows: `draw(*rows, metric="ms", where="N>512", environment=H200)`. `axes` are those of the file."""

    def draw(
        *rows: Row,
        where: str = "",
        environment: dict[str, Any] | None = None,
        axes: tuple[str, ...] = ("M", "N"),
        **choices: Any,
    ) -> list[Figure]:
        path = save(tmp_path / "softmax.csv", rows, axes, environment or {"driver": ""})
        return [picture.figure for picture in plot(load_sources([path], where), Choices(**choices))]

    return draw
