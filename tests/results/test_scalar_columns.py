"""Columns of scalars and modes in a results file: read as they were written, and chosen with `--where`."""

from __future__ import annotations

import itertools
from pathlib import Path

import pandas as pd
import pytest

from kbench import load
from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.errors import ResultsError, UsageError
from kbench.execute.writer import Writer
from kbench.results.case import Case, Value
from kbench.results.reader import read_results
from kbench.results.row import Row
from kbench.results.row_filter import RowFilter

AXES = ("M", "eps", "causal", "window", "mode")


def case(eps: float = 1e-6, causal: bool = False, window: int = -1, mode: str = "forward") -> Case:
    return Case("norm", {"M": 64, "eps": eps, "causal": causal, "window": window, "mode": mode}, "float32")


def write(path: Path, *cases: Case) -> Path:
    Writer(path, AXES).write([Row(each, "mine", ms=1.0) for each in cases])
    return path


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    every = itertools.product((1e-6, 1e-5, 0.1), (True, False), (-1, 128), ("forward", "backward"))
    return write(tmp_path / "norm.csv", *itertools.starmap(case, every))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_types(csv: Path) -> None:
    assert [str(load(csv)[name].dtype) for name in AXES] == ["Int64", "float64", "bool", "Int64", "str"]
    assert read_results(csv).axes == AXES


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("eps", [0.0, 0.1]),
        ("eps", [0.0]),
        ("eps", [1.0, 2.0]),
        ("eps", [1e-6, 1 / 3, 5e-324, 1.7976931348623157e308, -2.5, 1e16, 1e22]),
        ("causal", [True, False]),
        ("causal", [True]),
        ("window", [-1, 0, 2**62]),
    ],
)
def test_no_value_and_no_type_is_lost(tmp_path: Path, name: str, values: list[Value]) -> None:
    cases = [case(**{name: value}) for value in values]  # type: ignore[arg-type]
    path = write(tmp_path / "a.csv", *cases)
    rows = read_results(path).rows
    assert [row.case for row in rows] == cases
    assert [type(row.case.axes[name]) for row in rows] == [type(value) for value in values]
    assert [row.case.label for row in rows] == [each.label for each in cases]
    pd.testing.assert_series_equal(pd.read_csv(path)[name], pd.Series(values, name=name))


def test_a_spreadsheet_writes_booleans_in_capitals(csv: Path) -> None:
    before = read_results(csv)
    csv.write_text(csv.read_text().replace("True", "TRUE").replace("False", "FALSE"))
    assert read_results(csv) == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",1e-06,", ",1e-0 6,", "eps is '1e-0 6', not a finite number"),
        (",1e-06,", ",nan,", "eps is 'nan', not a finite number"),
        (",1e-06,", ",1e999,", "eps is '1e999', not a finite number"),
        (",1e-06,", ",,", "eps is '', not a finite number"),
        (",True,", ",Tru,", "causal is 'Tru', neither True nor False"),
        (",-1,", ",-,", "window is '-', not a size"),
    ],
)
def test_a_damaged_cell(csv: Path, old: str, new: str, message: str) -> None:
    edit(csv, old, new)
    with pytest.raises(ResultsError, match=":2: ") as caught:
        read_results(csv)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("eps<=1e-5", 16),
        ("eps=1e-6", 8),
        ("eps=0.000001,1e-05", 16),
        ("eps!=.1", 16),
        ("eps>1e-6,causal=true", 8),
        ("eps<1", 24),
        ("causal=true", 12),
        ("causal=False", 12),
        ("causal!=TRUE", 12),
        ("causal=true,false", 24),
        ("window=-1", 12),
        ("window<0", 12),
        ("mode=backward", 12),
        ("mode=full|back*", 12),
        ("mode!=forward,eps=0.1,causal=true,window>=128", 1),
    ],
)
def test_where(csv: Path, text: str, count: int) -> None:
    assert len(RowFilter.parse(text).select(read_results(csv)).rows) == count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eps=small", "'small' is not a number; write one like 0.1 or 1e-6"),
        ("eps<nan", "'nan' is not a number"),
        ("eps=1e-6|", "'' is not a number"),
        ("causal=maybe", "'maybe' is neither true nor false"),
        ("causal<true", "causal holds only true and false, and these have no order; use = or !="),
        ("window=0.5", "'0.5' is not a whole number"),
        ("mode<full", "mode holds words, which have no order"),
        ("esp=1", "has no column 'esp'; did you mean 'eps'?"),
    ],
)
def test_wrong_conditions(csv: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        RowFilter.parse(text).select(read_results(csv))
    assert message in str(caught.value)


def test_why_nothing_is_left(csv: Path) -> None:
    assert RowFilter.parse("eps=1").nothing(read_results(csv)).endswith("eps is one of 1e-06, 1e-05, 0.1")
    write(csv.parent / "b.csv", case(causal=True))
    results = read_results(csv.parent / "b.csv")
    assert RowFilter.parse("causal=false").nothing(results).endswith("causal is one of True")


@pytest.mark.parametrize("word", ["1", "1e-6", ".5", "true", "False"])
def test_a_choice_has_no_words_that_a_file_would_read_as_values(word: str) -> None:
    with pytest.raises(ValueError, match="reads as a number or a boolean; declare a scalar, or use another word"):
        Operator(
            "unread",
            ("N",),
            {"x": Tensor("N")},
            {"y": Tensor("N")},
            lambda x, *, kind: x,
            choices={"kind": ("a", word)},
        )
