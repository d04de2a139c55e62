"""What a comparison has measured, for services that keep a history and judge by themselves."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from kbench.comparison import Comparison
from kbench.comparison.join import Side
from kbench.comparison.presentation.rows import full_name
from kbench.comparison.verdict import Verdict
from kbench.results.row import Status


@dataclass(frozen=True)
class Spread:
    """A value and the lowest and the highest of its sessions, or of the rounds where there is one session."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measured:
    """One thing that was measured. `name` is no other's; `gbps` is None where speeds are not known."""

    name: str
    row: Verdict
    ns: Spread
    gbps: Spread | None


def measured(comparison: Comparison) -> Iterator[Measured]:
    """What the contenders have times for, without those that no memory can deliver."""
    for row in comparison.rows:
        side = row.new
        if side is None or side.status is not Status.OK or side.suspect:
            continue
        ns = _spread([reading.ms * 1e6 for reading in side.readings], [ms * 1e6 for ms in _times(side)])
        if ns is not None:
            yield Measured(full_name(row, comparison), row, ns, _speeds(side))


def _times(side: Side) -> list[float]:
    """In ms: the sessions', or the rounds' of the only one."""
    if len(side.readings) > 1:
        return [reading.ms for reading in side.readings]
    return [*side.readings[0].rounds] or [side.readings[0].ms]


def _speeds(side: Side) -> Spread | None:
    values = [reading.gbps or math.nan for reading in side.readings]
    moved = values[0] * side.readings[0].ms
    return _spread(values, [moved / ms for ms in _times(side)])


def _spread(values: list[float], around: list[float]) -> Spread | None:
    """None where a number is none, or beyond what can be."""
    if not all(0 < number < math.inf for number in (*values, *around)):
        return None
    value = statistics.geometric_mean(values)
    return Spread(value, min(value, *around), max(value, *around))


_encode = json.JSONEncoder(allow_nan=False).encode


def array(entries: Iterable[Any]) -> str:
    """JSON with an entry on each line."""
    return "[\n" + ",\n".join(map(_encode, entries)) + "\n]\n"


def mapping(entries: dict[str, Any]) -> str:
    """The same for an object."""
    return "{\n" + ",\n".join(f"{_encode(name)}: {_encode(entry)}" for name, entry in entries.items()) + "\n}\n"
