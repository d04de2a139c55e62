"""Rows as a pandas frame, for `kbench.load` and `kbench.run`, and for what draws and reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from kbench.results.reader import Results
from kbench.results.row import COLUMNS, LINE, Row, csv_header


def frame_of(results: Results) -> pd.DataFrame:
    """The rows as a frame, indexed by the line of the file on which each stands.

    Numbers are float64 with NaN for what is not known, axes Int64, float64, bool or text, `session` is int64, other whole
    numbers are Int64, `deterministic` is boolean, and `round_ms` holds tuples of floats. `flags` is text, several between
    semicolons. `attrs["path"]` is the path of the file.
    """
    rows = results.rows
    index = pd.Index(list(results.lines), name=LINE, dtype="int64")
    columns = {}
    for name in csv_header(results.axes):
        values = _values(rows, name)
        dtype = COLUMNS[name].cells.dtype if name in COLUMNS else _axis_dtype(values)
        columns[name] = pd.Series(values, index, dtype)
    frame = pd.DataFrame(columns, index)
    frame.attrs.update(path=str(results.path))
    return frame


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    """The values of a column. It is read as a whole, because a file has some sixty columns and may have thousands of rows."""
    if name in ("operator", "dtype") or name not in COLUMNS:
        return [row.value(name) for row in rows]
    if name == "flags":
        return [";".join(row.flags) for row in rows]
    if name in ("role", "status"):
        return [str(getattr(row, name)) for row in rows]
    return [getattr(row, name) for row in rows]


def _axis_dtype(values: list[Any]) -> str:
    return {bool: "bool", int: "Int64", float: "float64"}.get(type(values[0]), "str") if values else "str"
