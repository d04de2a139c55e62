"""Files: their names, their bytes, and one-line errors where there is nothing to draw."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawing import NS, caption, save, sweep

from kbench.analysis.files import load_sources
from kbench.plotting import Choices, plot, write_pictures


def test_an_incomplete_file_says_so_in_the_picture(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", sweep("triton"))
    path.write_text(path.read_text()[:-80])
    [picture] = plot(load_sources([path]), Choices())
    assert "incomplete" in caption(picture.figure)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "bars", "heatmap"])
@pytest.mark.parametrize(
    "rows",
    [
        sweep("only"),
        sweep("only", ns=[1]),
        sweep("a", "b", ns=[256]),
        sweep(*(f"provider-{i}" for i in range(40)), ns=NS[:2]),
        sweep("_a", "a$b$", "<b>", "x[y=1]", "z" * 300),
    ],
    ids=["one provider", "N = 1", "one case", "40 providers", "odd names"],
)
def test_ugly_files_are_pictures(tmp_path: Path, rows: list[object], kind: str) -> None:
    path = save(tmp_path / "ugly.csv", rows)  # type: ignore[arg-type]
    pictures = write_pictures(path, Choices(kind=kind), formats=["svg"])
    assert pictures and all(picture.stat().st_size > 5000 for picture in pictures)
