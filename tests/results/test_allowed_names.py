"""What may be called how: a name that a run accepts is one that every reader of its results shows and stores."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from kbench import summary
from kbench.analysis import analyse
from kbench.analysis.files import load_sources
from kbench.comparison.compare import compare_results
from kbench.comparison.exports import FORMATS
from kbench.contract.operator import Operator, registered
from kbench.contract.tensor import Tensor
from kbench.execute.writer import Writer
from kbench.plotting import Choices, plot
from kbench.reporting.comparison_part import comparison_part
from kbench.reporting.content import content
from kbench.results.case import Case
from kbench.results.reader import read_results
from kbench.results.row import Row, csv_header

pytestmark = pytest.mark.usefixtures("no_operators")


def operator(name: Any = "scale", axes: Any = ("M", "N"), **others: Any) -> Operator:
    tensors: dict[str, Any] = {"inputs": {"t": Tensor()}, "outputs": {"u": Tensor()}, "reference": lambda t, **words: t}
    return Operator(name, axes, **(tensors | others))


@pytest.mark.parametrize("name", ["a\nb", "\x1b]0;owned\x07", "a\udcff", "a\u2028b", "", " a ", 7])
def test_no_ugly_name_is_registered(name: Any) -> None:
    for arguments in (
        {"name": name},
        {"axes": ("M", name)},
        {"choices": {name: ("a", "b")}},
        {"choices": {"form": ("a", name)}},
    ):
        with pytest.raises(ValueError, match=r"a name|not printable") as refused:
            operator(**arguments)
        assert str(refused.value).isprintable()
    assert registered == {}
    with pytest.raises(ValueError, match=r"a name|not printable"):
        operator().provider(name)


@pytest.mark.parametrize(
    "axis", [*csv_header([]), *(name for name in dir(Case) if name[0] != "_"), "line", "file", "axes"]
)
def test_no_axis_has_the_name_of_a_column_or_of_an_attribute_of_a_case(axis: str) -> None:
    with pytest.raises(ValueError, match="rename the axis"):
        operator(axes=("M", axis))


@pytest.mark.parametrize("word", ["1", "1e-6", ".5", "true", "False"])
def test_a_choice_has_no_words_that_a_file_would_read_as_values(word: str) -> None:
    with pytest.raises(ValueError, match="reads as a number or a boolean; declare a scalar, or use another word"):
        operator(choices={"kind": ("a", word)})


@pytest.mark.slow
@pytest.mark.parametrize("axis", ["x", "ratio", "GB/s", "verdict"])
def test_readers_accept_an_axis_that_they_use_for_something_else(axis: str, tmp_path: Path) -> None:
    operator(axes=("M", axis))
    old, new = (written(tmp_path / f"{name}.csv", axis, ms) for name, ms in (("old", 0.1), ("new", 0.2)))
    assert read_results(old).axes == ("M", axis)
    comparison = compare_results(str(old), str(new))
    for text in FORMATS.values():
        assert text(comparison)
    cells = list(csv.DictReader(io.StringIO(FORMATS["csv"](comparison))))
    assert sorted({cell.get(f"axis_{axis}") or cell[axis] for cell in cells}, key=int) == ["64", "128", "256"]
    for table in (content([old])["rows"], comparison_part(comparison)["table"]):
        assert {"64", "128", "256"} in map(set, table.columns)
    for kind in ("lines", "bars", "heatmap"):
        assert list(plot(load_sources([old]), Choices(kind=kind, x=axis))), kind
    times = summary.times_table(analyse(rows(axis, 0.1), "torch-native"))
    assert len(times.rows) == 3


def rows(axis: str, ms: float) -> list[Row]:
    return [
        Row(
            Case("scale", {"M": 16, axis: size}, "float32"), provider, ms=ms * size * slower, gbps=5 / ms, speedup=1.0,
            round_ms=(ms, ms), device="D", timer="do_bench", cache="cold",
        )
        for size in (64, 128, 256)
        for provider, slower in (("torch-native", 1.0), ("mine", 2.0))
    ]  # fmt: skip


def written(path: Path, axis: str, ms: float) -> Path:
    Writer(path, ("M", axis)).write(rows(axis, ms))
    return path
