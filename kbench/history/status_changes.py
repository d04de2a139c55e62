"""Where a series failed, was fixed, ended or began anew. A failure is said at once, without statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kbench.comparison.verdict import Verdict
from kbench.history.timeline import RunPoint, Series, Timeline
from kbench.results.vocabulary import Status

ABSENT_RUNS = 3
"""A series has ended when it is absent from the last so many runs of its results file. Fewer may be runs of some rows only."""


@dataclass(frozen=True)
class StatusChange:
    """A change that is not one of level. `before` is the last point before it; `at` the first point after it, or the last point
    of a series that ended. `run` is the place of the run in which it happened."""

    kind: Verdict
    series: Series
    before: RunPoint | None
    at: RunPoint
    run: int
    reason: str


def status_changes(timeline: Timeline, chosen: Sequence[Series]) -> Iterator[StatusChange]:
    """The changes of the chosen series that are not changes of level."""
    subjects: dict[Any, list[Series]] = defaultdict(list)
    for series in timeline.series:
        subjects[series.key.subject].append(series)
    runs = timeline.runs_of_files
    for series in chosen:
        yield from _of_status(series)
        same = subjects[series.key.subject]
        yield from _began_anew(series, same)
        if not any(other.points[-1].run > series.points[-1].run for other in same):
            yield from _ended(series, timeline, runs)


def _of_status(series: Series) -> Iterator[StatusChange]:
    for place, point in enumerate(series.points[1:], 1):
        before = series.points[place - 1]
        if point.status == before.status:
            continue
        reason = f"{point.status}: {point.reason}" if point.reason else point.status
        if point.status == Status.OK:
            reason = f"ok; it was {before.status}"
        yield StatusChange(_kind(before, point), series, before, point, point.run, reason)


def _kind(before: RunPoint, point: RunPoint) -> Verdict:
    """The kind of a change of status, by the rule of `kbench compare`: only what had a time can be missing, and what failed
    already fails anew only if it had a time in a session and now has none."""
    if point.status == Status.OK:
        return Verdict.FIXED if before.failed else Verdict.NEW
    if point.failed:
        lost_its_time = before.log_ms is not None and point.log_ms is None
        return Verdict.UNTIMED if before.failed and not lost_its_time else Verdict.FAILED
    return Verdict.UNTIMED if before.log_ms is None else Verdict.MISSING


def _began_anew(series: Series, same: Sequence[Series]) -> Iterator[StatusChange]:
    """A series whose subject was measured in another way before: with another timer, or with another definition of the case."""
    first = series.points[0]
    earlier = [
        (other.key, point) for other in same if other is not series for point in other.points if point.run < first.run
    ]
    if not earlier:
        return
    key, before = max(earlier, key=lambda each: each[1].run)
    names = [name for name in ("timer", "cache", "case_hash") if getattr(key, name) != getattr(series.key, name)]
    what = ", ".join(f"{name} {getattr(key, name) or 'unknown'} -> {getattr(series.key, name)}" for name in names)
    reason = f"{what}: measured in another way than before, so a new series begins"
    yield StatusChange(Verdict.INCOMPARABLE, series, before, first, first.run, reason)


def _ended(series: Series, timeline: Timeline, runs: Mapping[tuple[str, str], Sequence[int]]) -> Iterator[StatusChange]:
    last = series.points[-1]
    source = timeline.runs[last.run].source
    after = [run for run in runs[source, series.key.machine] if run > last.run]
    if len(after) >= ABSENT_RUNS:
        count = len(after)
        reason = f"absent from the last {count} runs of {source}"
        kind = Verdict.UNTIMED if last.log_ms is None else Verdict.MISSING
        yield StatusChange(kind, series, last, last, after[0], reason)
