"""Files: their names, their bytes, and one-line errors where there is nothing to draw."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from drawing import NS, caption, case, copies, drawn_row, save, sweep

from kbench.analysis.files import load_sources
from kbench.errors import ResultsError
from kbench.plotting import PICTURE_FORMATS, Choices, plot, write_pictures


@pytest.mark.slow
def test_bytes_depend_on_the_csv_alone(tmp_path: Path) -> None:
    kinds = [Choices(theme="dark"), Choices(kind="heatmap")]
    rows = [*sweep("triton", "cuda", "mine$", flags=("overhead-bound",)), *sweep("bad", status="wrong"), *copies()]
    path, formats = save(tmp_path / "softmax.csv", rows), list(PICTURE_FORMATS)
    first = [picture for choices in kinds for picture in write_pictures(path, choices, formats=formats)]
    random.Random(0).shuffle(rows)
    time.sleep(1.1)  # a moment in the metadata would show
    path, deep = save(tmp_path / "again" / "softmax.csv", rows), tmp_path / "deep" / "er"
    again = [picture for choices in kinds for picture in write_pictures(path, choices, deep, formats=formats)]
    assert {path.parent for path in again} == {deep}
    assert len({path.name for path in first}) == len(kinds) * len(formats)
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_nothing_ok_is_one_line_with_the_counts(tmp_path: Path) -> None:
    rows = [drawn_row(case(n), status=status) for n, status in ((1, "wrong"), (2, "wrong"), (3, "crashed"))]
    path = save(tmp_path / "a.csv", [*rows, *copies()])
    for kind in ("lines", "bars", "heatmap"):
        with pytest.raises(ResultsError) as caught:
            write_pictures(path, Choices(kind=kind))
        assert "1 crashed, 2 wrong" in str(caught.value) and str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert list(tmp_path.glob("*.png")) == []


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", sweep("triton"))
    with pytest.raises(ResultsError, match="cannot be written"):
        write_pictures(path, out_dir=path)


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
