"""Which row of one side belongs to which row of another: by what was measured, never by position.

A side is a file, or with `by="provider"` one provider of a file.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from kbench.analysis import rounds
from kbench.analysis.rounds import credible
from kbench.errors import ResultsError, UsageError
from kbench.results import table
from kbench.results.row import PROVIDER, Status, curve_name

CONDITIONS = ("device", "timer", "cache", "case_hash")
"""What must be equal on both sides for two times to be comparable."""

METRICS = {"ms": -1, "ms_min": -1, "launch_ms": -1, "gbps": 1, "achieved_gbps": 1, "copy_fraction": 1}
"""Columns that can be compared, and whether more of it is better (1) or worse (-1)."""


CaseId = tuple[str, tuple[tuple[str, Hashable], ...], str]
"""Operator, axes and dtype."""


@dataclass(frozen=True)
class Key:
    """What was measured: the identity of a row without its session, and without what tells the sides apart."""

    operator: str
    provider: str
    params: str
    axes: tuple[tuple[str, Hashable], ...]
    dtype: str

    @property
    def case(self) -> CaseId:
        return self.operator, self.axes, self.dtype

    @property
    def curve(self) -> str:
        return curve_name(self.provider, self.params)

    @property
    def label(self) -> str:
        """`softmax M=4096 N=256 float32 triton`"""
        return " ".join(
            [self.operator, *(f"{name}={value}" for name, value in self.axes), self.dtype, self.curve]
        ).strip()

    @property
    def order(self) -> tuple[Any, ...]:
        """For sorting: numbers by size, words by letter."""
        axes = [(isinstance(value, str), value) for _, value in self.axes]
        return (self.operator, self.dtype, axes, self.provider, self.params)


@dataclass(frozen=True)
class Reading:
    """One session's time of a key. `value` is the metric that is compared, `rounds` are round medians in ms.

    What the file does not say is None, so that equal readings compare equal.
    """

    session: int
    value: float
    ms: float
    gbps: float | None = None
    rounds: tuple[float, ...] = ()
    samples: float | None = None
    started_at: str = ""


@dataclass(frozen=True)
class Side:
    """The sessions of one key on one side.

    readings    the sessions that have a time
    sessions    how many sessions there are, with a time or not
    status      `ok` when all have one, else the status of the first that failed, else of the first without a time
    reason      why that session has none
    conditions  the values of CONDITIONS, several of a kind where sessions differ
    suspect     a session is faster than its memory can physically be
    """

    readings: tuple[Reading, ...]
    sessions: int
    status: Status = Status.OK
    reason: str = ""
    conditions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    suspect: bool = False

    @cached_property
    def value(self) -> float | None:
        """The geometric mean of the sessions; None when none has one."""
        return statistics.geometric_mean([reading.value for reading in self.readings]) if self.readings else None

    @property
    def by_session(self) -> dict[int, Reading]:
        return {reading.session: reading for reading in self.readings}


@dataclass(frozen=True)
class Pair:
    """A key and what the baseline and one contender have of it; None where a side does not have it."""

    key: Key
    contender: str
    old: Side | None
    new: Side | None


Sides = dict[Key, Side]


def common_axes(frames: Sequence[pd.DataFrame]) -> list[str]:
    """What tells the rows of all files apart: the axes they share and, where a fleet has measured one, the device."""
    shared = [axis for axis in table.axes(frames[0]) if all(axis in table.axes(frame) for frame in frames)]
    return [*shared, "device"] if any(map(several_devices, frames)) else shared


def files(frames: Sequence[pd.DataFrame], axes: Sequence[str], metric: str) -> tuple[list[Sides], list[str]]:
    """The sides of files that `table.read` returned, by `common_axes`, with notes on what was left out to make their keys
    agree.

    Raises UsageError when an axis that another file lacks varies in one, or a key has the same session twice.
    """
    notes = [note for frame in frames for note in _drop_extra_axes(frame, axes)]
    return [_sides(frame, axes, metric) for frame in frames], notes


def nothing_common(baseline: str, old: Sides, contender: str, new: Sides) -> str:
    """One sentence on two sides without a common key: what their keys disagree on. Empty for others."""
    if old.keys() & new.keys():
        return ""
    if empty := [label for label, sides in ((baseline, old), (contender, new)) if not sides]:
        return f"nothing to compare: {' and '.join(empty)} {'has' if len(empty) == 1 else 'have'} no row of a provider"
    before, after = _values(old), _values(new)
    different = [
        f"{name} is {_few(before[name])} in {baseline} and {_few(after[name])} in {contender}"
        for name in before
        if name in after and not before[name] & after[name]
    ]
    told = f": {'; '.join(different)}" if different else ""
    return f"nothing to compare: {baseline} and {contender} have no row in common{told}"


def providers(frame: pd.DataFrame, metric: str) -> dict[str, Sides]:
    """The sides of one file's providers, `triton-row[num_warps=4]` and all, in the order in which they first appear."""
    sides: dict[str, Sides] = {}
    device = ["device"] if several_devices(frame) else []
    for key, side in _sides(frame, [*table.axes(frame), *device], metric).items():
        sides.setdefault(key.curve, {})[Key(key.operator, "", "", key.axes, key.dtype)] = side
    return sides


def pairs(baseline: Sides, contenders: dict[str, Sides]) -> list[Pair]:
    """Every key of the baseline or of a contender, for every contender, sorted by key."""
    everything = {*baseline, *(key for sides in contenders.values() for key in sides)}
    keys = sorted(everything, key=lambda key: key.order)
    return [
        Pair(key, label, baseline.get(key), sides.get(key))
        for key in keys
        for label, sides in contenders.items()
        if key in baseline or key in sides
    ]


def _drop_extra_axes(frame: pd.DataFrame, shared: Sequence[str]) -> list[str]:
    path, notes = frame.attrs["path"], []
    for axis in table.axes(frame):
        if axis in shared:
            continue
        values = frame[axis].unique()
        if len(values) > 1:
            raise UsageError(
                f"{path}: axis {axis} varies here and another file has none; compare files of one operator"
            )
        notes += [f"{path}: axis {axis}={value} is not in every file and was left out" for value in values]
    return notes


def several_devices(frame: pd.DataFrame) -> bool:
    """Whether a file holds rows of a fleet: the device is then part of what was measured, not a condition."""
    return bool(frame.loc[frame["device"] != "", "device"].nunique() > 1)


def _sides(frame: pd.DataFrame, axes: Sequence[str], metric: str) -> Sides:
    identity = ["operator", "provider", "params", *axes, "dtype", "session"]
    outcome = ["status", "reason", "flags", "started_at", "samples", "ms", "gbps", "round_ms"]
    columns = list(dict.fromkeys([*identity, *outcome, *CONDITIONS, metric]))
    rows: dict[Key, dict[int, dict[str, Any]]] = {}
    measured = frame.loc[frame["role"] == PROVIDER, columns].reset_index()
    records: list[Any] = measured.to_dict("records")
    for row in records:
        values = tuple((axis, row[axis]) for axis in axes)
        key = Key(row["operator"], row["provider"], row["params"], values, row["dtype"])
        sessions, session = rows.setdefault(key, {}), row["session"]
        if session in sessions:
            where, first = f"{frame.attrs['path']}:{row['line']}", sessions[session]["line"]
            raise ResultsError(f"{where}: {key.label} session {session} is on line {first} already; delete one of them")
        sessions[session] = {**row, "value": row[metric]}
    return {key: _side([sessions[session] for session in sorted(sessions)]) for key, sessions in rows.items()}


def _side(rows: list[dict[str, Any]]) -> Side:
    timed = [row for row in rows if _has_time(row)]
    lost = [_loss(row) for row in rows if not _has_time(row)]
    status, reason = min(lost, key=lambda loss: not loss[0].failed, default=(Status.OK, ""))
    return Side(
        readings=tuple(_reading(row) for row in timed),
        sessions=len(rows),
        status=status,
        reason=reason,
        conditions={name: tuple(sorted({row[name] for row in timed})) for name in CONDITIONS},
        suspect=any("suspect" in row["flags"].split(";") for row in timed),
    )


def _reading(row: dict[str, Any]) -> Reading:
    gbps, samples = (None if math.isnan(row[name]) else row[name] for name in ("gbps", "samples"))
    return Reading(
        row["session"], row["value"], row["ms"], gbps, rounds.read(row["round_ms"]), samples, row["started_at"]
    )


def _has_time(row: dict[str, Any]) -> bool:
    return row["status"] == Status.OK.value and credible(row["ms"]) and credible(row["value"])


def _loss(row: dict[str, Any]) -> tuple[Status, str]:
    """Why a row has no time. No run writes `ok` without one: such a cell was lost on the way."""
    status = Status(row["status"])
    if status is not Status.OK:
        return status, row["reason"]
    if credible(row["ms"]):
        return Status.UNSUPPORTED, "this metric was not measured"
    return Status.ERROR, f"ok, but its time is {row['ms']}"


def _values(sides: Sides) -> dict[str, set[Hashable]]:
    values: dict[str, set[Hashable]] = {}
    for key in sides:
        named = {"operator": key.operator, "provider": key.curve, **dict(key.axes), "dtype": key.dtype}
        for name, value in named.items():
            values.setdefault(name, set()).add(value)
    return values


def _few(values: set[Hashable]) -> str:
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
    return ", ".join(map(str, ordered[:3])) + (", ..." if len(values) > 3 else "")
