"""The changes of series: of their level, and of their status, which needs no statistics. And what moved with each."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from kbench.comparison.verdict import Verdict
from kbench.history.timeline import RunPoint, Series, SeriesKey, Timeline
from kbench.results.vocabulary import Status

KIND_OF = {
    **dict.fromkeys(("packages", "cuda", "hip", "nvcc", "python", "kbench", "triton_interpreter"), "stack"),
    **dict.fromkeys(("measure", "variables", "profile", "baseline", "threads"), "settings"),
}
"""By the beginnings of the names of properties, see `environment_properties`. All others are those of the machine."""

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
class HistoryChange:
    """A change of a series, and what moved with it.

    before    the last point before it
    at        the first point after it, or the last of a series that ended
    around    the points around all places at which it may lie; None for a series that ended
    runs      the places of the runs in which it may have begun, the first and the last
    reason    why the series failed or is new; empty for a change of its level
    old_ms    the level in ms without the drift of the machine, as `new_ms`; None if the status changed and not the level.
              So are their quotient `ratio` and its 95 % interval `ci`
    moved     the properties that moved, by kind: code, machine, stack (versions) or settings
    baseline  the name of the baseline, and its own change as a ratio
    copies    by what ratio the copies of the machine became slower; None if by less than the margin
    recent    whether it began in one of the last runs
    """

    kind: Verdict
    series: Series
    before: RunPoint
    at: RunPoint
    around: tuple[RunPoint, RunPoint] | None
    runs: tuple[int, int]
    reason: str = ""
    old_ms: float | None = None
    new_ms: float | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    moved: Mapping[str, tuple[MovedProperty, ...]] = field(default_factory=dict)
    baseline: tuple[str, float] | None = None
    copies: float | None = None
    recent: bool = False

    @property
    def event_run(self) -> int:
        """The place of the run in which the change is said to be."""
        return self.at.run if self.ratio is not None else self.runs[0]


def changes_of(series: Series, timeline: Timeline, margin: float) -> Iterator[HistoryChange]:
    """The changes of a series. `margin` is the smallest change of the machine that is named, as a share."""
    for change in (
        *_of_level(series),
        *_of_status(series),
        *_began_anew(series, timeline),
        *_ended(series, timeline),
    ):
        if change.around is None:
            yield change
        else:
            yield replace(
                change,
                moved=_moved_properties(timeline, *change.around),
                baseline=_moved_baseline(timeline, series.key, *change.around),
                copies=_moved_copies(timeline, change, margin),
            )


def _of_level(series: Series) -> Iterator[HistoryChange]:
    points = series.timed
    for change in series.levels:
        effect = change.after - change.before
        yield HistoryChange(
            kind=Verdict.SLOWER if effect > 0 else Verdict.FASTER,
            series=series,
            before=points[change.at - 1],
            at=points[change.at],
            around=(points[change.earliest - 1], points[change.latest]),
            runs=(points[change.earliest].run, points[change.latest].run),
            old_ms=math.exp(change.before),
            new_ms=math.exp(change.after),
            ratio=math.exp(effect),
            ci=(math.exp(effect - change.half_width), math.exp(effect + change.half_width)),
        )


def _of_status(series: Series) -> Iterator[HistoryChange]:
    for before, point in itertools.pairwise(series.points):
        if point.status != before.status:
            reason = f"{point.status}: {point.reason}" if point.reason else point.status
            if point.status == Status.OK:
                reason = f"ok; it was {before.status}"
            yield _status_change(_kind(before, point), series, before, point, reason)


def _status_change(kind: Verdict, series: Series, before: RunPoint, at: RunPoint, reason: str) -> HistoryChange:
    return HistoryChange(kind, series, before, at, (before, at), (at.run, at.run), reason)


def _kind(before: RunPoint, point: RunPoint) -> Verdict:
    """The kind of a change of status, by the rule of `kbench compare`: only what had a time can be missing, and what failed
    already fails anew only if it had a time in a session and now has none."""
    if point.status == Status.OK:
        return Verdict.FIXED if before.failed else Verdict.NEW
    if point.failed:
        lost_its_time = before.log_ms is not None and point.log_ms is None
        return Verdict.UNTIMED if before.failed and not lost_its_time else Verdict.FAILED
    return Verdict.UNTIMED if before.log_ms is None else Verdict.MISSING


def _began_anew(series: Series, timeline: Timeline) -> Iterator[HistoryChange]:
    """A series whose subject was measured in another way before: with another timer, or with another definition of the case."""
    first = series.points[0]
    others = [other for other in timeline.by_subject[series.key.subject] if other is not series]
    earlier = [(point, other.key) for other in others for point in other.points if point.run < first.run]
    if not earlier:
        return
    before, key = max(earlier, key=lambda entry: entry[0].run)
    differences = ", ".join(
        f"{name} {getattr(key, name) or 'unknown'} -> {getattr(series.key, name)}"
        for name in ("timer", "cache", "case_hash")
        if getattr(key, name) != getattr(series.key, name)
    )
    reason = f"{differences}: measured in another way than before, so a new series begins"
    yield _status_change(Verdict.INCOMPARABLE, series, before, first, reason)


def _ended(series: Series, timeline: Timeline) -> Iterator[HistoryChange]:
    last = series.points[-1]
    if any(other.points[-1].run > last.run for other in timeline.by_subject[series.key.subject]):
        return
    source = timeline.runs[last.run].source
    after = [run for run in timeline.runs_of_sources[source, series.key.machine] if run > last.run]
    if len(after) >= ABSENT_RUNS:
        reason = f"absent from the last {len(after)} runs of {source}"
        kind = Verdict.UNTIMED if last.log_ms is None else Verdict.MISSING
        yield HistoryChange(kind, series, last, last, None, (after[0], after[0]), reason)


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
            kinds[KIND_OF.get(name.partition(".")[0], "machine")].append(MovedProperty(name, *values))
    uuids = old.row.device_uuid, new.row.device_uuid
    if uuids[0] != uuids[1] and all(uuids):
        kinds["machine"].append(MovedProperty("device UUID", *uuids))
    return {kind: tuple(properties) for kind, properties in kinds.items()}


def _moved_baseline(timeline: Timeline, key: SeriesKey, old: RunPoint, new: RunPoint) -> tuple[str, float] | None:
    """The baseline of the same case, if its own level changed in the same runs, and that change as a ratio."""
    name = timeline.runs[new.run].environment.baseline
    if not name or name == key.configuration_name:
        return None
    for series in timeline.series:
        if (series.key.configuration_name, series.key.measured_case) == (name, key.measured_case):
            for change in series.levels:
                first, last = series.timed[change.earliest].run, series.timed[change.latest].run
                if first <= new.run and last > old.run:
                    return name, math.exp(change.after - change.before)
    return None


def _moved_copies(timeline: Timeline, change: HistoryChange, margin: float) -> float | None:
    """By what ratio the copies of the machine became slower; None if by less than the margin."""
    machine = change.series.key.machine
    levels = sorted((run, level) for (run, name), level in timeline.levels.items() if name == machine)
    before = [level for run, level in levels if run <= change.before.run][-NEARBY_RUNS:]
    after = [level for run, level in levels if run >= change.at.run][:NEARBY_RUNS]
    if not before or not after:
        return None
    step = statistics.median(after) - statistics.median(before)
    return math.exp(step) if abs(step) >= math.log1p(margin) else None


def _short_commit(commit: str) -> str:
    changed = len(commit) > 10 and commit.endswith("+")
    return f"{commit[:10]}+" if changed else commit[:10]
