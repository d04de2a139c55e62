"""Joins the readings of all runs of a history to series: the same provider in the same case, measured in the same way on the
same machine. Times are relative to the machine's level in their session."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kbench.history.machine_level import machine_levels
from kbench.history.storage.folder import HistoryFolder
from kbench.history.storage.stored_run import StoredReading, StoredRun
from kbench.results.case import Value, configuration_name, value_order
from kbench.results.row import is_plausible
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import Flag, Role, Status

SHOWN_UUID = 8
"""Characters of a device's UUID in the name of a machine, if several machines have the same device."""


@dataclass(frozen=True)
class SeriesKey:
    """What makes two readings comparable. `machine` is the name of the machine, see `Timeline`."""

    machine: str
    operator: str
    provider: str
    params: str
    axes: tuple[tuple[str, Value], ...]
    dtype: str
    timer: str = ""
    cache: str = ""
    case_hash: str = ""

    @property
    def configuration(self) -> str:
        return configuration_name(self.provider, self.params)

    @property
    def case(self) -> tuple[Any, ...]:
        """The case on this machine, as it was measured: that of all its providers."""
        return self.machine, self.operator, self.axes, self.dtype, self.timer, self.cache, self.case_hash

    @property
    def subject(self) -> tuple[Any, ...]:
        """What was measured, however it was measured."""
        return self.machine, self.operator, self.provider, self.params, self.axes, self.dtype

    @property
    def case_label(self) -> str:
        """`softmax M=4096 N=256 float32`"""
        return " ".join([self.operator, *(f"{name}={value}" for name, value in self.axes), self.dtype])

    @property
    def order(self) -> tuple[Any, ...]:
        """For sorting: numbers by size, words by letter."""
        axes = [(name, value_order(value)) for name, value in self.axes]
        return self.machine, self.operator, self.dtype, axes, self.provider, self.params, self.timer, self.cache


@dataclass(frozen=True)
class RunPoint:
    """What one run tells about a series: the mean of its sessions.

    run         the place of the run in `Timeline.runs`
    started_at  when the first session measured the row
    log_ms      the logarithm of the time in ms, less the machine's level; None if no session has a time
    status      `ok` if every session has a time, else the status of the first that failed, else of the first without a time;
                `suspect` if a session is faster than it can be. It then has no time.
    corrected   whether every session has a copy control
    facts       the environment: what may affect the time
    """

    run: int
    started_at: str
    log_ms: float | None
    status: str
    reason: str
    corrected: bool
    source_hash: str
    device_uuid: str
    facts: Mapping[str, str]

    @property
    def ms(self) -> float | None:
        """The time in ms without the machine's level."""
        return None if self.log_ms is None else math.exp(self.log_ms)

    @property
    def failed(self) -> bool:
        return self.status == Flag.SUSPECT or Status(self.status).failed


@dataclass(frozen=True)
class Series:
    """The points of a key in the order of time."""

    key: SeriesKey
    points: tuple[RunPoint, ...]

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


@dataclass(frozen=True)
class Timeline:
    """All series of a history. `levels` has the mean level of each machine in each run, by the place of the run and the
    machine, in log time. `uncorrected` is the number of timed readings without a copy control in their session.

    A machine is named by `--machine`, or by its device; if several machines have the same device, also by its UUID.
    """

    runs: tuple[StoredRun, ...]
    series: tuple[Series, ...]
    levels: Mapping[tuple[int, str], float]
    uncorrected: int
    notes: tuple[str, ...]

    @cached_property
    def machines(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.key.machine for each in self.series))

    @cached_property
    def runs_of_files(self) -> Mapping[tuple[str, str], Sequence[int]]:
        """For each results file and machine, the places of its runs."""
        found: dict[tuple[str, str], set[int]] = defaultdict(set)
        for series in self.series:
            for point in series.points:
                found[self.runs[point.run].source, series.key.machine].add(point.run)
        return {key: sorted(runs) for key, runs in found.items()}


def join_runs(found: HistoryFolder) -> Timeline:
    """The series of a folder."""
    names = _machine_names(found.runs)
    levels = _session_levels(found.runs, names)
    members: dict[SeriesKey, dict[int, list[StoredReading]]] = defaultdict(lambda: defaultdict(list))
    uncorrected = 0
    for place, run in enumerate(found.runs):
        for reading in run.readings:
            if reading.role == Role.PROVIDER:
                key = _key(reading, names[_machine(run, reading)])
                members[key][place].append(reading)
                uncorrected += reading.ms is not None and _session(place, key, reading) not in levels
    series = [
        Series(key, tuple(_point(place, key, own, found.runs[place], levels) for place, own in runs.items()))
        for key, runs in _with_untimed(members).items()
    ]
    by_run: dict[tuple[int, str], list[float]] = defaultdict(list)
    for (place, machine, *_), level in levels.items():
        by_run[place, machine].append(level)
    mean = {key: statistics.fmean(each) for key, each in by_run.items()}
    ordered = tuple(sorted(series, key=lambda each: each.key.order))
    return Timeline(found.runs, ordered, mean, uncorrected, found.notes)


def _machine(run: StoredRun, reading: StoredReading) -> tuple[str, str, str]:
    """The label, device and UUID of a machine. A reading that failed may lack its device: it is then that of its run."""
    if run.machine:
        return run.machine, "", ""
    if not reading.device:
        own = {(each.device, each.device_uuid) for each in run.readings if each.device}
        if len(own) == 1:
            return ("", *own.pop())
    return "", reading.device, reading.device_uuid


def _machine_names(runs: Sequence[StoredRun]) -> dict[tuple[str, str, str], str]:
    """A name for each machine, different from all others."""
    machines = list(dict.fromkeys(_machine(run, reading) for run in runs for reading in run.readings))
    devices = Counter(label or device for label, device, _ in machines)
    short = Counter((device, _short_uuid(uuid)) for _, device, uuid in machines)
    names = {}
    for label, device, uuid in machines:
        name = label or device or "unknown device"
        if not label and devices[device] > 1:
            told = _short_uuid(uuid) if short[device, _short_uuid(uuid)] == 1 else uuid
            name = f"{name} ({told or 'no UUID'})"
        names[label, device, uuid] = name
    return names


def _short_uuid(uuid: str) -> str:
    return uuid.removeprefix("GPU-")[:SHOWN_UUID]


SessionKey = tuple[int, str, int, str, str]
"""The place of a run, a machine, a session, a timer and a cache mode."""


def _session(place: int, key: SeriesKey, reading: StoredReading) -> SessionKey:
    return place, key.machine, reading.session, key.timer, key.cache


def _session_levels(runs: Sequence[StoredRun], names: Mapping[tuple[str, str, str], str]) -> dict[SessionKey, float]:
    """The machine's level in each session with copies. Each machine, timer and cache mode has levels of its own."""
    tables: dict[tuple[str, str, str], dict[SessionKey, dict[Any, float]]] = defaultdict(lambda: defaultdict(dict))
    for place, run in enumerate(runs):
        for reading in run.readings:
            if reading.role == Role.CONTROL and reading.ms is not None and is_plausible(reading.ms):
                key = _key(reading, names[_machine(run, reading)])
                copies = tables[key.machine, key.timer, key.cache][_session(place, key, reading)]
                copies[key.case] = math.log(reading.ms)
    return {session: level for copies in tables.values() for session, level in machine_levels(copies).items()}


def _key(reading: StoredReading, machine: str) -> SeriesKey:
    return SeriesKey(
        machine,
        reading.operator,
        reading.provider,
        reading.params,
        tuple(reading.axes.items()),
        reading.dtype,
        reading.timer,
        reading.cache,
        reading.case_hash,
    )


def _with_untimed(
    members: Mapping[SeriesKey, Mapping[int, list[StoredReading]]],
) -> dict[SeriesKey, dict[int, list[StoredReading]]]:
    """The readings by series and run. A reading that failed may lack its timer, cache mode or case hash: it then belongs to the
    series of the same subject that has the nearest run before it, or else after it."""
    whole: dict[Any, list[SeriesKey]] = defaultdict(list)
    for key in members:
        if key.timer and key.case_hash:
            whole[key.subject].append(key)
    found: dict[SeriesKey, dict[int, list[StoredReading]]] = defaultdict(dict)
    for key, runs in members.items():
        for place, own in runs.items():
            home = key
            if not (key.timer and key.case_hash) and (others := whole[key.subject]):
                home = max(others, key=lambda other: _nearness(members[other], place))
            found[home][place] = [*found[home].get(place, []), *own]
    return {key: dict(sorted(runs.items())) for key, runs in found.items()}


def _nearness(runs: Mapping[int, Any], place: int) -> tuple[int, int]:
    before = [each for each in runs if each <= place]
    return (1, max(before)) if before else (0, -min(runs))


def _point(
    place: int, key: SeriesKey, own: Sequence[StoredReading], run: StoredRun, levels: Mapping[SessionKey, float]
) -> RunPoint:
    timed: list[StoredReading] = []
    lost: list[StoredReading] = []
    for reading in own:
        (timed if reading.ms is not None and is_plausible(reading.ms) else lost).append(reading)
    suspect = any(reading.suspect for reading in timed)
    logs = [math.log(reading.ms or 1.0) - levels.get(_session(place, key, reading), 0.0) for reading in timed]
    worst = min(lost, key=lambda reading: not reading.status.failed, default=None)
    status, reason = _outcome(worst)
    if suspect and not status.failed:
        word, reason = str(Flag.SUSPECT), "in at least one session, the time is shorter than is possible"
    else:
        word = str(status)
    last = (timed or own)[-1]
    return RunPoint(
        run=place,
        started_at=min((reading.started_at for reading in own if reading.started_at), default=run.started_at),
        log_ms=statistics.fmean(logs) if logs and not suspect else None,
        status=word,
        reason=reason,
        corrected=all(_session(place, key, reading) in levels for reading in timed),
        source_hash=last.source_hash,
        device_uuid=last.device_uuid,
        facts=run.environments.get(last.env_id, {}),
    )


def _outcome(worst: StoredReading | None) -> tuple[Status, str]:
    """The status and the reason of a reading without a plausible time; `ok` without such a reading."""
    if worst is None:
        return Status.OK, ""
    if worst.status is Status.OK:
        return Status.ERROR, f"the status is ok, but the time is {worst.ms}"
    return worst.status, worst.reason
