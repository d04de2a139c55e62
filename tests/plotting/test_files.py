"""Files: their names, their bytes, and one-line errors where there is nothing to draw."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawing import NS, save, sweep

from kbench.plotting import Choices, write_pictures


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
