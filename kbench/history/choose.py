"""Chooses the series of a history with `--where`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from kbench.errors import UsageError
from kbench.history.timeline import Series
from kbench.results.case import FORWARD, Value
from kbench.results.row_filter import MODE, RowFilter
from kbench.results.vocabulary import Role


def choose_series(series: Sequence[Series], where: str, path: Path) -> list[Series]:
    """The series that `where` chooses, in their order. Terms on `status` mean that of the last run. Raises UsageError if
    there are none."""
    chosen = RowFilter.parse(where)
    if not chosen.terms:
        return list(series)
    frame = _frame(series, path)
    kept = chosen.select(frame)
    if kept.empty:
        raise UsageError(chosen.nothing(frame))
    return [series[place] for place in kept.index]


def _frame(series: Sequence[Series], path: Path) -> pd.DataFrame:
    """A row for each series, with the columns that a filter may name."""
    axes = list(dict.fromkeys(name for each in series for name, _ in each.key.axes))
    columns: dict[str, Any] = {
        name: [getattr(each.key, name) for each in series] for name in ("operator", "provider", "params")
    }
    for axis in axes:
        other = FORWARD if axis == MODE else None  # of operators without the axis
        columns[axis] = _column([dict(each.key.axes).get(axis, other) for each in series])
    columns |= {name: [getattr(each.key, name) for each in series] for name in ("dtype", "timer", "cache")}
    columns["status"] = [each.points[-1].status for each in series]
    columns["device"] = [each.key.machine for each in series]
    frame = pd.DataFrame({**columns, "role": str(Role.PROVIDER), "session": 0, "flags": "", "model": "", "weight": 1.0})
    frame.attrs["path"] = str(path)
    return frame


def _column(values: Sequence[Value]) -> pd.Series[Any]:
    """The values of an axis. Operators without the axis have none, which is NaN among numbers: no term holds for it."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, (str, bool)) for value in known):
        whole = all(isinstance(value, bool) for value in values)
        texts = ["" if value is None else str(value).lower() if isinstance(value, bool) else value for value in values]
        return pd.Series(list(values), dtype="bool") if whole else pd.Series(texts, dtype="str")
    whole = all(isinstance(value, int) for value in values)
    return pd.Series(list(values), dtype="int64" if whole else "float64")
