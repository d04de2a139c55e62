"""The changes of series: of their level, and of their status, which is said at once and without statistics. Each is named with
what else changed there: the code of the provider, the baseline, the machine, the stack or the settings."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kbench.comparison.verdict import Verdict
from kbench.history.timeline import RunPoint, Series, Timeline
from kbench.results.vocabulary import Status

STACK = ("packages", "cuda", "hip", "nvcc", "python", "kbench", "triton_interpreter")
SETTINGS = ("measure", "variables", "profile", "baseline", "threads")
"""The beginnings of the names of properties, see `environment_properties`. All others are those of the machine."""

NOT_CAUSES = ("uncommitted changes",)
"""Properties that are left out. The commit already shows uncommitted changes."""

COMMIT = "commit"
"""The name of the property that holds the git commits."""

GONE = "none"
"""The value of a property that one side lacks."""

NEARBY_RUNS = 5
"""The level of the machine before and after a change is the median of so many runs."""

ABSENT_RUNS = 3
"""A series has ended when it is absent from the last so many runs of its config. Fewer may be runs of some rows only."""

Neighbours = tuple[RunPoint, RunPoint]
"""The last point before a change and the first one after it."""


@dataclass(frozen=True)
class MovedProperty:
    """A property with its values before and after. Either is GONE if that side lacks it or knows no value."""

    name: str
    old: str
    new: str

    @property
    def text(self) -> str:
        """`torch 2.9.0 -> 2.10.0`. Commits are cut as git does."""
        old, new = (self.old, self.new) if self.name != COMMIT else map(_short_commit, (self.old, self.new))
        return f"{self.name.removeprefix('packages.')} {old} -> {new}"


@dataclass(frozen=True)
class Moved:
    """What moved with a change.

    properties  by kind. code: the git commits, if both are known, and the hash of the provider's code. machine: driver, limits
                and the UUID of the device. stack: versions of packages, of CUDA and of Python. settings: those of the
                measurement and environment variables
    baseline    the name of the baseline, and its own change as a ratio
    copies      by what ratio the copies of the machine became slower, which kbench subtracts; None if by less than the margin
    """

    properties: Mapping[str, tuple[MovedProperty, ...]] = field(default_factory=dict)
    baseline: tuple[str, float] | None = None
    copies: float | None = None


@dataclass(frozen=True)
class HistoryChange:
    """A change of a series.

    at      the first point after the change, or the last of a series that ended; `before` is the last one before it
    runs    the places of the runs in which the change may have begun, the first and the last
    reason  why the series failed or is new; empty for a change of its level
    moved   what moved with it
    recent  whether it began in one of the last runs
    old_ms, new_ms, ratio, ci   the levels in ms without the drift of the machine, their quotient and its 95 % interval; None
                                if the status changed and not the level
    """

    kind: Verdict
    series: Series
    before: RunPoint
    at: RunPoint
    runs: tuple[int, int]
    reason: str = ""
    moved: Moved = field(default_factory=Moved)
    recent: bool = False
    old_ms: float | None = None
    new_ms: float | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None

    @property
    def event_run(self) -> int:
        """The place of the run in which the change is said to be."""
        return self.at.run if self.ratio is not None else self.runs[0]


# ---- changes of level


def changes_of_level(timeline: Timeline, chosen: Sequence[Series], margin: float) -> Iterator[HistoryChange]:
    """The changes of level of the chosen series. `margin` is the smallest change of the machine that is named, as a share."""
    for series in chosen:
        for change in series.levels:
            points = series.timed
            neighbours = points[change.at - 1], points[change.at]
            around = points[change.earliest - 1], points[change.latest]
            effect = change.after - change.before
            yield HistoryChange(
                kind=Verdict.SLOWER if effect > 0 else Verdict.FASTER,
                series=series,
                before=neighbours[0],
                at=neighbours[1],
                runs=(points[change.earliest].run, points[change.latest].run),
                moved=_moved(timeline, series, neighbours, around, margin),
                old_ms=math.exp(change.before),
                new_ms=math.exp(change.after),
                ratio=math.exp(effect),
                ci=(math.exp(effect - change.half_width), math.exp(effect + change.half_width)),
            )


# ---- changes of status


def changes_of_status(timeline: Timeline, chosen: Sequence[Series], margin: float) -> Iterator[HistoryChange]:
    """Where the chosen series failed, were fixed, ended or began anew."""
    subjects: dict[Any, list[Series]] = defaultdict(list)
    for series in timeline.series:
        subjects[series.key.subject].append(series)
    for series in chosen:
        of_subject = subjects[series.key.subject]
        for change in (*_of_status(series), *_began_anew(series, of_subject)):
            neighbours = change.before, change.at
            yield replace(change, moved=_moved(timeline, series, neighbours, neighbours, margin))
        if not any(one_series.points[-1].run > series.points[-1].run for one_series in of_subject):
            yield from _ended(series, timeline)


def _of_status(series: Series) -> Iterator[HistoryChange]:
    for before, point in zip(series.points, series.points[1:], strict=False):
        if point.status == before.status:
            continue
        reason = f"{point.status}: {point.reason}" if point.reason else point.status
        if point.status == Status.OK:
            reason = f"ok; it was {before.status}"
        yield HistoryChange(_kind(before, point), series, before, point, (point.run, point.run), reason)


def _kind(before: RunPoint, point: RunPoint) -> Verdict:
    """The kind of a change of status, by the rule of `kbench compare`: only what had a time can be missing, and what failed
    already fails anew only if it had a time in a session and now has none."""
    if point.status == Status.OK:
        return Verdict.FIXED if before.failed else Verdict.NEW
    if point.failed:
        lost_its_time = before.log_ms is not None and point.log_ms is None
        return Verdict.UNTIMED if before.failed and not lost_its_time else Verdict.FAILED
    return Verdict.UNTIMED if before.log_ms is None else Verdict.MISSING


def _began_anew(series: Series, of_subject: Sequence[Series]) -> Iterator[HistoryChange]:
    """A series whose subject was measured in another way before: with another timer, or with another definition of the case."""
    first = series.points[0]
    earlier = [
        (one_series.key, point)
        for one_series in of_subject
        if one_series is not series
        for point in one_series.points
        if point.run < first.run
    ]
    if not earlier:
        return
    key, before = max(earlier, key=lambda key_and_point: key_and_point[1].run)
    names = [name for name in ("timer", "cache", "case_hash") if getattr(key, name) != getattr(series.key, name)]
    differences = ", ".join(
        f"{name} {getattr(key, name) or 'unknown'} -> {getattr(series.key, name)}" for name in names
    )
    reason = f"{differences}: measured in another way than before, so a new series begins"
    yield HistoryChange(Verdict.INCOMPARABLE, series, before, first, (first.run, first.run), reason)


def _ended(series: Series, timeline: Timeline) -> Iterator[HistoryChange]:
    last = series.points[-1]
    source = timeline.runs[last.run].source
    after = [run for run in timeline.runs_of_sources[source, series.key.machine] if run > last.run]
    if len(after) >= ABSENT_RUNS:
        reason = f"absent from the last {len(after)} runs of {source}"
        kind = Verdict.UNTIMED if last.log_ms is None else Verdict.MISSING
        yield HistoryChange(kind, series, last, last, (after[0], after[0]), reason)


# ---- what moved with a change


def _moved(timeline: Timeline, series: Series, neighbours: Neighbours, around: Neighbours, margin: float) -> Moved:
    """What differs between the points around all places at which a change may lie. `neighbours` are those of its likely place.
    `margin` is the smallest change of the machine's level that is named, as a share."""
    return Moved(
        _moved_properties(timeline, *around),
        _moved_baseline(timeline, series, around),
        _moved_copies(timeline, series.key.machine, neighbours, margin),
    )


def _moved_properties(timeline: Timeline, old: RunPoint, new: RunPoint) -> dict[str, tuple[MovedProperty, ...]]:
    """The properties that differ, by kind. An environment that is not known differs from others in that only."""
    runs = timeline.runs[old.run], timeline.runs[new.run]
    kinds: dict[str, list[MovedProperty]] = {"code": [], "machine": [], "stack": [], "settings": []}
    if old.row.source_hash != new.row.source_hash and old.row.source_hash and new.row.source_hash:
        commits = runs[0].commit, runs[1].commit
        if all(commits) and commits[0] != commits[1]:
            kinds["code"].append(MovedProperty(COMMIT, *commits))
        kinds["code"].append(MovedProperty("source_hash", old.row.source_hash, new.row.source_hash))
    before, after = (run.facts.get(point.row.env_id, {}) for run, point in zip(runs, (old, new), strict=True))
    if not (before and after):
        before, after = ({"environment file": "read"} if facts else {} for facts in (before, after))
    for name in dict.fromkeys([*before, *after]):
        values = before.get(name) or GONE, after.get(name) or GONE
        if values[0] != values[1] and name not in NOT_CAUSES:
            top = name.partition(".")[0]
            kind = "stack" if top in STACK else "settings" if top in SETTINGS else "machine"
            kinds[kind].append(MovedProperty(name, *values))
    uuids = old.row.device_uuid, new.row.device_uuid
    if uuids[0] != uuids[1] and all(uuids):
        kinds["machine"].append(MovedProperty("device UUID", *uuids))
    return {kind: tuple(properties) for kind, properties in kinds.items()}


def _moved_baseline(timeline: Timeline, series: Series, around: Neighbours) -> tuple[str, float] | None:
    """The baseline of the same case, if its own level changed in the same runs, and that change as a ratio."""
    first, last = around[0].run + 1, around[1].run
    name = timeline.runs[last].environment.baseline
    if not name or name == series.key.configuration_name:
        return None
    case = series.key.measured_case
    for other in timeline.series:
        if not other.levels or other.key.configuration_name != name or other.key.measured_case != case:
            continue
        for change in other.levels:
            if other.timed[change.earliest].run <= last and other.timed[change.latest].run >= first:
                return name, math.exp(change.after - change.before)
    return None


def _moved_copies(timeline: Timeline, machine: str, neighbours: Neighbours, margin: float) -> float | None:
    """By what ratio the copies of a machine became slower; None if by less than the margin."""
    levels = sorted((run, level) for (run, name), level in timeline.levels.items() if name == machine)
    before = [level for run, level in levels if run <= neighbours[0].run][-NEARBY_RUNS:]
    after = [level for run, level in levels if run >= neighbours[1].run][:NEARBY_RUNS]
    if not before or not after:
        return None
    change = statistics.median(after) - statistics.median(before)
    return math.exp(change) if abs(change) >= math.log1p(margin) else None


def _short_commit(commit: str) -> str:
    changed = len(commit) > 10 and commit.endswith("+")
    return f"{commit[:10]}+" if changed else commit[:10]
