"""Where a series failed, was fixed, ended or began anew. A failure is said at once, without statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from kbench.comparison.verdict import Verdict
from kbench.history.report import HistoryChange
from kbench.history.timeline import RunPoint, Series, Timeline
from kbench.results.vocabulary import Status

ABSENT_RUNS = 3
"""A series has ended when it is absent from the last so many runs of its config. Fewer may be runs of some rows only."""


def status_changes(timeline: Timeline, chosen: Sequence[Series]) -> Iterator[HistoryChange]:
    """The changes of the chosen series that are not changes of level."""
    subjects: dict[Any, list[Series]] = defaultdict(list)
    for series in timeline.series:
        subjects[series.key.subject].append(series)
    for series in chosen:
        yield from _of_status(series)
        of_subject = subjects[series.key.subject]
        yield from _began_anew(series, of_subject)
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
