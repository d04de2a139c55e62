"""Who wins each case, by how much, and whether that is more than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pandas as pd

from kbench import rounds, table
from kbench.plotting.source import Source
from kbench.results import PROVIDER, Case, Row, Status
from kbench.summary import SUSPECT, NoiseFloor, by_curve
from kbench.table import TableError

MEANING = "1.10x: the runner-up takes 10 % longer · ~: a tie, within the noise floor"
"""For the caption."""


OUTCOME = ("device", "timer", "cache", "curve", "margin", "tied")


@dataclass(frozen=True)
class Winner:
    """The fastest curve of a case, measured on this device in this way. `margin` is the runner-up's time over its own,
    infinite where there is no runner-up; `tied` are the curves within the noise floor of it."""

    case: Case
    device: str
    timer: str
    cache: str
    curve: str
    margin: float
    tied: tuple[str, ...]


def winners(source: Source) -> list[Winner]:
    """The winner of every case that someone was timed on, in the file's order. Sessions are pooled: the median of a
    curve's times, the largest noise floor. Suspect rows win nothing."""
    rows = _rows(source.frame)
    floor = NoiseFloor.of(rows)
    cases: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row.role == PROVIDER and SUSPECT not in row.flags:
            cases.setdefault((row.case.key, row.device, row.timer, row.cache), []).append(row)
    return [_winner(members, floor) for members in cases.values()]


def winners_of(sources: Sequence[Source], axes: Sequence[str], x: str) -> tuple[pd.DataFrame, str]:
    """A row per case with the columns file, operator, dtype, the axes, those of OUTCOME, `x` and `y`; and what y is: of
    the other axes the one with the most values, "" where there is none.

    Raises TableError where there is no x, or nobody was timed.
    """
    found: list[dict[str, Any]] = []
    for source in sources:
        for winner in winners(source):
            case = {
                "file": source.label,
                "operator": winner.case.operator,
                "dtype": winner.case.dtype,
                **winner.case.axes,
            }
            found.append(case | {name: getattr(winner, name) for name in OUTCOME})
    if not found:
        paths = ", ".join(str(source.path) for source in sources)
        raise TableError(f"{paths}: no time to win with, but for suspect ones; see the columns `reason` and `flags`")
    frame = pd.DataFrame(found)
    if x not in axes:
        raise TableError("a heatmap runs along an axis of whole numbers; choose one with --x, or draw --kind bars")
    others = [name for name in axes if name != x and pd.api.types.is_integer_dtype(frame[name].convert_dtypes())]
    y = max(others, key=lambda name: frame[name].nunique(), default="")
    height = frame[y].astype("float64") if y else 0.0
    return frame.assign(x=frame[x].astype("float64"), y=height, kind="value"), y


def _winner(rows: Sequence[Row], floor: NoiseFloor) -> Winner:
    of = by_curve(rows)
    ranked = sorted((median(row.ms or math.inf for row in sessions), curve) for curve, sessions in of.items())
    best, curve = ranked[0]
    tied = tuple(name for ms, name in ranked[1:] if ms <= (1 + floor.between(of[curve], of[name])) * best)
    case, how = rows[0].case, (rows[0].device, rows[0].timer, rows[0].cache)
    return Winner(case, *how, curve, ranked[1][0] / best if len(ranked) > 1 else math.inf, tied)


def _rows(frame: pd.DataFrame) -> list[Row]:
    """The timed rows of a results file, with what the noise floor is made of."""
    timed = frame[(frame["status"] == Status.OK.value) & (frame["ms"] > 0)]
    axes = table.axes(frame)
    return [
        Row(
            Case(cells["operator"], {name: cells[name] for name in axes}, cells["dtype"]),
            cells["provider"],
            cells["params"],
            cells["role"],
            cells["session"],
            flags=tuple(flag for flag in cells["flags"].split(";") if flag),
            ms=cells["ms"],
            round_ms=rounds.read(cells["round_ms"]),
            speedup=None if math.isnan(cells["speedup"]) else cells["speedup"],
            timer=cells["timer"],
            cache=cells["cache"],
            device=cells["device"],
        )
        for cells in timed.to_dict("records")
    ]
