"""Rows as a pandas frame, for `kbench.load` and `kbench.run`, and for what draws and reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from kbench.results.reader import Results
from kbench.results.row import COLUMNS, IDENTITY_COLUMNS, LINE, OUTCOME_COLUMNS


def frame_of(results: Results) -> pd.DataFrame:
    """The rows as a frame, indexed by the line of the file on which each stands.

    Numbers are float64 with NaN for what is not known, axes Int64, float64, bool or text, `session` is int64, other whole
    numbers are Int64, `deterministic` is boolean, and `round_ms` holds tuples of floats. `flags` is text, several between
    semicolons. `attrs["path"]` is the path of the file.
    """
    rows = results.rows
    index = pd.Index(list(results.lines), name=LINE, dtype="int64")
    columns: dict[str, tuple[list[Any], str]] = {
        "operator": ([row.case.operator for row in rows], "str"),
        **{name: _column(results, name) for name in IDENTITY_COLUMNS[1:]},
        **{axis: _axis([row.case.axes[axis] for row in rows]) for axis in results.axes},
        "dtype": ([row.case.dtype for row in rows], "str"),
        **{name: _column(results, name) for name in OUTCOME_COLUMNS},
    }
    frame = pd.DataFrame({name: pd.Series(values, index, dtype) for name, (values, dtype) in columns.items()}, index)
    frame.attrs.update(path=str(results.path))
    return frame


def _column(results: Results, name: str) -> tuple[list[Any], str]:
    """The values of a column, and their dtype."""
    convert, dtype = _DTYPES[COLUMNS[name].kind]
    values = [getattr(row, name) for row in results.rows]
    return [convert(value) for value in values] if convert else values, dtype


def _axis(values: Sequence[Any]) -> tuple[list[Any], str]:
    dtypes = {bool: "bool", int: "Int64", float: "float64"}
    return list(values), dtypes.get(type(values[0]), "str") if values else "str"


_DTYPES: dict[str, tuple[Callable[[Any], Any] | None, str]] = {
    "text": (None, "str"),
    "role": (str, "str"),
    "status": (str, "str"),
    "words": (";".join, "str"),
    "count": (None, "int64"),
    "integer": (None, "Int64"),
    "number": (None, "float64"),
    "numbers": (None, "object"),
    "boolean": (None, "boolean"),
}
"""How the values of a kind of column become cells of a frame, and the dtype there."""
