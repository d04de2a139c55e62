"""Joins the results files below a folder, its runs, to series: the same provider in the same case, measured in the same way on
the same machine. Times are relative to the machine's level in their session."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from kbench.comparison.environment import environment_properties
from kbench.comparison.model import Key, Side
from kbench.errors import ResultsError
from kbench.history.change_points import LevelChange
from kbench.history.machine_level import machine_levels
from kbench.results.environment import Environment, read_environment
from kbench.results.reader import read_results
from kbench.results.row import Row
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import Control, Flag, Status

IDENTITY = attrgetter("case", "provider", "params", "session", "device_uuid", "started_at", "status", "ms")
"""What is equal in two rows that are one, as in a file and its copy."""


@dataclass(frozen=True)
class Run:
    """A results file. `rows` are those of providers, whatever their status, and the copies that were timed."""

    path: Path
    rows: Sequence[Row]
    environment: Environment

    @cached_property
    def source(self) -> str:
        """The name of the config, or else of the file. Runs with the same source measure the same rows."""
        config = self.environment.config
        return Path(config.path).name if config and config.path else self.path.name

    @cached_property
    def started_at(self) -> str:
        """When its first row was measured; "" for a file that says no time, which belongs to no history."""
        return min((row.started_at for row in self.rows if row.started_at), default=self.environment.started_at or "")

    @property
    def commit(self) -> str:
        """The git commit of the code, with `+` if files were changed since; "" if it is not known."""
        git = self.environment.git
        if git is None:
            return ""
        return f"{git.commit}+" if git.dirty else git.commit

    @cached_property
    def facts(self) -> Mapping[str, Mapping[str, str]]:
        """What may affect times, for each machine of the environment file by its `env_id`."""
        whole = self.environment
        further = {name: whole.model_copy(update=machine.entries()) for name, machine in whole.environments.items()}
        return {
            name: environment_properties(machine)
            for name, machine in {whole.env_id or "": whole, **further}.items()
            if machine.known
        }


def read_runs(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs below a folder, and notes on what cannot be read. Raises ResultsError if there is no run."""
    advice = f"`kbench run CONFIG -o {folder}/DATE` adds results to a history"
    if not folder.exists():
        raise ResultsError(f"{folder}: no such folder; {advice}")
    if not folder.is_dir():
        raise ResultsError(f"{folder}: is a file; name its folder")
    runs, notes = [], []
    for path in sorted(folder.rglob("*.csv")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        try:
            results = read_results(path)
        except ResultsError as error:
            notes.append(str(error))
            continue
        environment, note = read_environment(path)
        notes += [*results.warnings, *filter(None, [note])]
        copies = [row for row in results.rows if row.control is Control.COPY and row.status is Status.OK]
        run = Run(path, [*results.provider_rows, *copies], environment)
        if run.started_at:
            runs.append(run)
        elif run.rows:
            notes.append(f"{path}: no row says when it was measured (column started_at), so the file is left out")
    runs = _without_repeats(sorted(runs, key=lambda run: (run.started_at, run.path)))
    if not runs and notes:
        raise ResultsError(f"{folder}: no results file here can be read: {notes[0]}")
    if not runs:
        raise ResultsError(f"{folder}: no results of a provider here; {advice}")
    return runs, notes


def _without_repeats(runs: Sequence[Run]) -> list[Run]:
    """The runs without rows that an earlier one has, as a copied file. A run that adds no row of a provider is left out."""
    earlier: set[object] = set()
    fresh_runs = []
    for run in runs:
        rows = {IDENTITY(row): row for row in run.rows}
        fresh = [row for identity, row in rows.items() if identity not in earlier]
        earlier.update(rows)
        if any(row.of_provider for row in fresh):
            fresh_runs.append(replace(run, rows=fresh))
    return fresh_runs


@dataclass(frozen=True)
class SeriesKey(Key):
    """What makes two rows comparable. `machine` is the name of its device."""

    machine: str
    timer: str
    cache: str
    case_hash: str

    @property
    def measured_case(self) -> tuple[Any, ...]:
        """The case on this machine, as it was measured: that of all its providers."""
        return self.machine, self.case, self.timer, self.cache, self.case_hash

    @property
    def subject(self) -> tuple[Any, ...]:
        """What was measured, however it was measured."""
        return self.machine, self.case, self.provider, self.params

    @property
    def order(self) -> tuple[Any, ...]:
        return self.machine, super().order, self.timer, self.cache


@dataclass(frozen=True)
class RunPoint:
    """What one run tells about a series: the mean of its sessions.

    run          the place of the run in `Timeline.runs`
    row          the last row with a time, or the last row if none has one
    started_at   when the first session measured the row
    log_ms       the logarithm of the time in ms, less the machine's level; None if a session is suspect or wrong, too
    status       of its sessions, as in `Side`; `suspect` if one is faster than it can be
    uncorrected  how many of its rows with a time have no copy control in their session
    """

    run: int
    row: Row
    started_at: str
    log_ms: float | None
    status: str
    reason: str
    uncorrected: int

    @property
    def ms(self) -> float | None:
        """The time in ms without the machine's level."""
        return None if self.log_ms is None else math.exp(self.log_ms)

    @property
    def day(self) -> str:
        return self.started_at[:10]

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
    def where(self) -> dict[str, Any]:
        """What is measured, and on which machine, by the columns of results."""
        case = self.key.case
        return {"operator": case.operator, **case.axes, "dtype": case.dtype, "device": self.key.machine}

    @cached_property
    def timed(self) -> tuple[RunPoint, ...]:
        return tuple(point for point in self.points if point.log_ms is not None)

    @cached_property
    def logs(self) -> tuple[float, ...]:
        return tuple(point.log_ms for point in self.points if point.log_ms is not None)

    @property
    def clock_step(self) -> float:
        """The resolution of the timer as a share of the shortest time; 0 without a time."""
        return timer_kind(self.key.timer).resolution_ms / math.exp(min(self.logs)) if self.logs else 0.0

    @cached_property
    def fitted(self) -> list[float]:
        """The level at each point of `timed`, in log time."""
        first = self.levels[0].before if self.levels else statistics.median(self.logs or [0.0])
        fitted = [first] * len(self.logs)
        for change in self.levels:
            fitted[change.at :] = [change.after] * (len(fitted) - change.at)
        return fitted


@dataclass(frozen=True)
class Timeline:
    """All series of a history, and the mean level of each machine in each run, in log time."""

    runs: tuple[Run, ...]
    series: tuple[Series, ...]
    levels: Mapping[tuple[int, str], float]

    @cached_property
    def by_subject(self) -> Mapping[object, Sequence[Series]]:
        members: dict[object, list[Series]] = defaultdict(list)
        for series in self.series:
            members[series.key.subject].append(series)
        return members

    @cached_property
    def runs_of_sources(self) -> Mapping[tuple[str, str], Sequence[int]]:
        """For each source and machine, the places of the runs."""
        places: dict[tuple[str, str], set[int]] = defaultdict(set)
        for series in self.series:
            for point in series.points:
                places[self.runs[point.run].source, series.key.machine].add(point.run)
        return {key: sorted(runs) for key, runs in places.items()}


class _Reading(NamedTuple):
    """A row of a run: the place of the run, what makes the row comparable, and the row."""

    run: int
    key: SeriesKey
    row: Row

    @property
    def is_whole(self) -> bool:
        """Whether it says how it was measured. A row that failed may not."""
        return bool(self.key.timer and self.key.case_hash)

    @property
    def session(self) -> tuple[object, ...]:
        """All rows with the same one share a level of the machine."""
        return (
            self.run,
            self.key.machine,
            self.row.device_uuid,
            self.row.session,
            self.key.timer,
            self.key.cache,
        )


def join_runs(runs: Sequence[Run]) -> Timeline:
    """The series of these runs, which are in the order of time.

    A row that failed may lack its timer, cache mode or case hash. It then belongs to the series in which the same subject was
    measured last, or else to the one in which it is measured first.
    """
    readings = [reading for place, run in enumerate(runs) for reading in _readings(place, run)]
    levels = _session_levels(readings)
    providers = [reading for reading in readings if reading.row.of_provider]
    latest = {reading.key.subject: reading.key for reading in reversed(providers) if reading.is_whole}
    members: dict[SeriesKey, dict[int, list[_Reading]]] = defaultdict(lambda: defaultdict(list))
    for place, group in itertools.groupby(providers, key=lambda reading: reading.run):
        of_run = list(group)
        latest |= {reading.key.subject: reading.key for reading in of_run if reading.is_whole}
        for reading in of_run:
            key = reading.key if reading.is_whole else latest.get(reading.key.subject, reading.key)
            members[key][place].append(reading._replace(key=key))
    series = [
        Series(key, tuple(_point(by_run[place], runs[place], levels) for place in by_run))
        for key, by_run in members.items()
    ]
    levels_by_run: dict[tuple[int, str], list[float]] = defaultdict(list)
    for (place, machine, *_), level in levels.items():
        levels_by_run[place, machine].append(level)
    means = {key: statistics.fmean(of_run) for key, of_run in levels_by_run.items()}
    return Timeline(tuple(runs), tuple(sorted(series, key=lambda member: member.key.order)), means)


def _readings(place: int, run: Run) -> Iterator[_Reading]:
    """The rows of a run with their keys. A row that failed may lack its device: it is then that of its run."""
    devices = {row.device for row in run.rows if row.device}
    usual = devices.pop() if len(devices) == 1 else "unknown device"
    for row in run.rows:
        machine = row.device or usual
        key = SeriesKey(row.case, row.provider, row.params, machine, row.timer, row.cache, row.case_hash)
        yield _Reading(place, key, row)


def _session_levels(readings: Sequence[_Reading]) -> dict[Any, float]:
    """The machine's level in each session with copies. Each machine, timer and cache mode has levels of its own."""
    tables: dict[Any, dict[Any, dict[Any, float]]] = defaultdict(lambda: defaultdict(dict))
    for reading in readings:
        key, row = reading.key, reading.row
        if row.control is Control.COPY and row.ms is not None:
            copies = tables[key.machine, key.timer, key.cache]
            copies[reading.session][key.measured_case] = math.log(row.ms)
    return {session: level for copies in tables.values() for session, level in machine_levels(copies).items()}


def _point(readings: Sequence[_Reading], run: Run, levels: Mapping[Any, float]) -> RunPoint:
    rows = [reading.row for reading in readings]
    side = Side.of(rows, "ms")
    timed = [reading for reading in readings if reading.row.ms is not None]
    status, reason = str(side.status), side.reason
    if side.suspect and not side.status.failed:
        status, reason = str(Flag.SUSPECT), "in at least one session, the time is shorter than is possible"
    distrusted = side.suspect or any(row.status in (Status.WRONG, Status.TAMPERED) for row in rows)
    logs = [math.log(ms) - levels.get(reading.session, 0.0) for reading in timed if (ms := reading.row.ms) is not None]
    return RunPoint(
        run=readings[0].run,
        row=timed[-1].row if timed else rows[-1],
        started_at=min((row.started_at for row in rows if row.started_at), default=run.started_at),
        log_ms=statistics.fmean(logs) if logs and not distrusted else None,
        status=status,
        reason=reason,
        uncorrected=sum(reading.session not in levels for reading in timed),
    )
