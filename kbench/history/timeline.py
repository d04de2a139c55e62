"""Joins the rows of all runs of a history to series: the same provider in the same case, measured in the same way on the same
machine. Times are relative to the machine's level in their session."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kbench.comparison.join import Key
from kbench.history.change_points import LevelChange
from kbench.history.machine_level import machine_levels
from kbench.history.runs import Run
from kbench.results.row import Row
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import Flag, Role, Status


@dataclass(frozen=True)
class SeriesKey(Key):
    """What makes two rows comparable. `machine` is the name of its device."""

    machine: str
    timer: str = ""
    cache: str = ""
    case_hash: str = ""

    @property
    def case(self) -> tuple[Any, ...]:
        """The case on this machine, as it was measured: that of all its providers."""
        return self.machine, super().case, self.timer, self.cache, self.case_hash

    @property
    def subject(self) -> tuple[Any, ...]:
        """What was measured, however it was measured."""
        return self.machine, super().case, self.provider, self.params

    @property
    def order(self) -> tuple[Any, ...]:
        return self.machine, super().order, self.timer, self.cache


@dataclass(frozen=True)
class RunPoint:
    """What one run tells about a series: the mean of its sessions.

    run         the place of the run in `Timeline.runs`
    row         the last row with a time, or the last row if none has one
    started_at  when the first session measured the row
    log_ms      the logarithm of the time in ms, less the machine's level; None if no session has a time
    status      `ok` if every session has a time, else the status of the first that failed, else of the first without a time;
                `suspect` if a session is faster than it can be. It then has no time.
    corrected   whether every session has a copy control
    """

    run: int
    row: Row
    started_at: str
    log_ms: float | None
    status: str
    reason: str
    corrected: bool

    @property
    def ms(self) -> float | None:
        """The time in ms without the machine's level."""
        return None if self.log_ms is None else math.exp(self.log_ms)

    @property
    def failed(self) -> bool:
        return self.status == Flag.SUSPECT or Status(self.status).failed


@dataclass(frozen=True)
class Series:
    """The points of a key in the order of time.

    noise   the standard deviation of a point, as a share of the time; 0 before `check` has judged it
    levels  the changes of its level, by their places in `timed`
    """

    key: SeriesKey
    points: tuple[RunPoint, ...]
    noise: float = 0.0
    levels: tuple[LevelChange, ...] = ()

    @cached_property
    def timed(self) -> tuple[RunPoint, ...]:
        """The points with a time."""
        return tuple(point for point in self.points if point.log_ms is not None)

    @cached_property
    def logs(self) -> tuple[float, ...]:
        """The log times of `timed`."""
        return tuple(point.log_ms for point in self.points if point.log_ms is not None)

    @property
    def clock_step(self) -> float:
        """The resolution of the timer as a share of the shortest time; 0 without a time."""
        return timer_kind(self.key.timer).resolution_ms / math.exp(min(self.logs)) if self.logs else 0.0

    @property
    def segments(self) -> list[tuple[int, int, float]]:
        """The first place, the place after the last, and the level of each segment of `timed`, in log time."""
        if not self.levels:
            return [(0, len(self.logs), statistics.median(self.logs))] if self.logs else []
        bounds = [0, *(change.at for change in self.levels), len(self.logs)]
        heights = [self.levels[0].before, *(change.after for change in self.levels)]
        return [(start, end, level) for (start, end), level in zip(itertools.pairwise(bounds), heights, strict=True)]


@dataclass(frozen=True)
class Timeline:
    """All series of a history. `levels` has the mean level of each machine in each run, by the place of the run and the
    machine, in log time. `uncorrected` is the number of timed rows without a copy control in their session."""

    runs: tuple[Run, ...]
    series: tuple[Series, ...]
    levels: Mapping[tuple[int, str], float]
    uncorrected: int

    @cached_property
    def runs_of_sources(self) -> Mapping[tuple[str, str], Sequence[int]]:
        """For each source and machine, the places of the runs."""
        places: dict[tuple[str, str], set[int]] = defaultdict(set)
        for series in self.series:
            for point in series.points:
                places[self.runs[point.run].source, series.key.machine].add(point.run)
        return {key: sorted(runs) for key, runs in places.items()}


_Keyed = tuple[SeriesKey, Row]
_SessionKey = tuple[int, str, str, int, str, str]
"""The place of a run, a machine, the UUID of the device, a session, a timer and a cache mode."""


def join_runs(runs: Sequence[Run]) -> Timeline:
    """The series of these runs, which are in the order of time.

    A row that failed may lack its timer, cache mode or case hash. It then belongs to the series in which the same subject was
    measured last, or else to the one in which it is measured first.
    """
    keyed = [_keyed(run) for run in runs]
    levels = _session_levels(keyed)
    latest = {key.subject: key for rows in reversed(keyed) for key, row in reversed(rows) if _is_whole(key, row)}
    members: dict[SeriesKey, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    uncorrected = 0
    for place, rows in enumerate(keyed):
        latest |= {key.subject: key for key, row in rows if _is_whole(key, row)}
        for key, row in rows:
            if row.role is Role.PROVIDER:
                series_key = key if _is_whole(key, row) else latest.get(key.subject, key)
                members[series_key][place].append(row)
                uncorrected += row.ms is not None and _session(place, key, row) not in levels
    series = [
        Series(key, tuple(_point(place, key, rows, runs[place], levels) for place, rows in rows_by_run.items()))
        for key, rows_by_run in members.items()
    ]
    by_run: dict[tuple[int, str], list[float]] = defaultdict(list)
    for (place, machine, *_), level in levels.items():
        by_run[place, machine].append(level)
    means = {key: statistics.fmean(of_run) for key, of_run in by_run.items()}
    series.sort(key=lambda one_series: one_series.key.order)
    return Timeline(tuple(runs), tuple(series), means, uncorrected)


def _is_whole(key: SeriesKey, row: Row) -> bool:
    return row.role is Role.PROVIDER and bool(key.timer and key.case_hash)


def _keyed(run: Run) -> list[_Keyed]:
    """The rows of a run with their keys. A row that failed may lack its device: it is then that of its run."""
    devices = {row.device for row in run.rows if row.device}
    usual = devices.pop() if len(devices) == 1 else "unknown device"
    return [(_key(row, row.device or usual), row) for row in run.rows]


def _key(row: Row, machine: str) -> SeriesKey:
    axes = tuple((name, value) for name, value in row.case.axes.items() if value is not None)
    subject = row.case.operator, row.provider, row.params, axes, row.case.dtype
    return SeriesKey(*subject, machine, row.timer, row.cache, row.case_hash)


def _session(place: int, key: SeriesKey, row: Row) -> _SessionKey:
    return place, key.machine, row.device_uuid, row.session, key.timer, key.cache


def _session_levels(keyed: Sequence[Sequence[_Keyed]]) -> dict[_SessionKey, float]:
    """The machine's level in each session with copies. Each machine, timer and cache mode has levels of its own."""
    tables: dict[tuple[str, str, str], dict[_SessionKey, dict[Any, float]]] = defaultdict(lambda: defaultdict(dict))
    for place, rows in enumerate(keyed):
        for key, row in rows:
            if row.role is Role.CONTROL and row.ms is not None:
                copies = tables[key.machine, key.timer, key.cache][_session(place, key, row)]
                copies[key.case] = math.log(row.ms)
    return {session: level for copies in tables.values() for session, level in machine_levels(copies).items()}


def _point(place: int, key: SeriesKey, rows: Sequence[Row], run: Run, levels: Mapping[_SessionKey, float]) -> RunPoint:
    timed = [(row, math.log(row.ms)) for row in rows if row.ms is not None]
    untimed = [row for row in rows if row.ms is None]
    status, reason = str(Status.OK), ""
    if untimed:
        worst = min(untimed, key=lambda row: not row.status.failed)
        status, reason = str(worst.status), worst.reason
    suspect = any(Flag.SUSPECT in row.flags for row, _ in timed)
    if suspect and not Status(status).failed:
        status, reason = str(Flag.SUSPECT), "in at least one session, the time is shorter than is possible"
    logs = [log - levels.get(_session(place, key, row), 0.0) for row, log in timed]
    return RunPoint(
        run=place,
        row=timed[-1][0] if timed else rows[-1],
        started_at=min((row.started_at for row in rows if row.started_at), default=run.started_at),
        log_ms=statistics.fmean(logs) if logs and not suspect else None,
        status=status,
        reason=reason,
        corrected=all(_session(place, key, row) in levels for row, _ in timed),
    )
