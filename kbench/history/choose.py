"""Chooses the series of a history with `--where`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kbench.history.timeline import Series
from kbench.results.case import FORWARD, Case
from kbench.results.reader import Results
from kbench.results.row import Row, csv_header
from kbench.results.row_filter import MODE, RowFilter
from kbench.results.vocabulary import Status


def choose_series(series: Sequence[Series], where: str, path: Path) -> list[Series]:
    """The series that `where` chooses, in their order. Terms on `status` mean that of the last run. Raises UsageError if
    there are none."""
    chosen = RowFilter.parse(where)
    if not chosen.terms:
        return list(series)
    axes = dict.fromkeys(name for each in series for name, _ in each.key.axes)
    rows = [_row(each, {axis: FORWARD if axis == MODE else None for axis in axes}) for each in series]
    kept = chosen.select_providers(Results(path, csv_header(axes), rows, range(len(rows))))
    return [series[place] for place in kept.lines]


def _row(series: Series, no_axes: dict[str, str | None]) -> Row:
    """A row with what a filter may name. `no_axes` are the axes of an operator that has none of them."""
    key, status = series.key, Status(series.points[-1].status)
    return Row(
        case=Case(key.operator, {**no_axes, **dict(key.axes)}, key.dtype),
        provider=key.provider,
        params=key.params,
        status=status,
        reason="not read",
        ms=1.0 if status is Status.OK else None,
        timer=key.timer,
        cache=key.cache,
        device=key.machine,
        weight=1.0,
    )
