"""The measurements of a comparison, for services that keep a history and judge it themselves."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kbench.comparison.join import Side
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation.row_names import full_name
from kbench.results.vocabulary import Status


@dataclass(frozen=True)
class Spread:
    """A value with the lowest and the highest of its sessions, or of its rounds if there is one session."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measured:
    """One measurement of a contender. Its `name` is unique; `gbps` is None where the speed is unknown."""

    name: str
    row: JudgedRow
    ns: Spread
    gbps: Spread | None


def measured(comparison: Comparison) -> Iterator[Measured]:
    """The contenders' rows that have a time and the metric in every session, without suspect rows."""
    for row in comparison.rows:
        side = row.new
        if side is None or side.status is not Status.OK or len(side.readings) < side.sessions or side.suspect:
            continue
        ns = _spread([reading.ms * 1e6 for reading in side.readings], [ms * 1e6 for ms in _times(side)])
        if ns is not None:
            yield Measured(full_name(row, comparison), row, ns, _speeds(side))


def _times(side: Side) -> list[float]:
    """The times in ms of the sessions, or of the rounds if there is one session."""
    if len(side.readings) > 1:
        return [reading.ms for reading in side.readings]
    return [*side.readings[0].rounds] or [side.readings[0].ms]


def _speeds(side: Side) -> Spread | None:
    values = [reading.gbps or math.nan for reading in side.readings]
    moved = values[0] * side.readings[0].ms
    return _spread(values, [moved / ms for ms in _times(side)])


def _spread(values: list[float], around: list[float]) -> Spread | None:
    """None unless all numbers are positive and finite."""
    if not all(0 < number < math.inf for number in (*values, *around)):
        return None
    value = statistics.geometric_mean(values)
    return Spread(value, min(value, *around), max(value, *around))


_encode = json.JSONEncoder(allow_nan=False).encode


def array(entries: Iterable[Any]) -> str:
    """A JSON array with one entry per line."""
    return "[\n" + ",\n".join(map(_encode, entries)) + "\n]\n"


def mapping(entries: dict[str, Any]) -> str:
    """A JSON object with one entry per line."""
    return "{\n" + ",\n".join(f"{_encode(name)}: {_encode(entry)}" for name, entry in entries.items()) + "\n}\n"
