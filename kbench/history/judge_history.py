"""Judges a history: the changes of every series, and what moved with each."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from kbench.comparison.verdict import Verdict
from kbench.errors import ResultsError
from kbench.history.change_points import LevelChange, level_changes, own_noise, shared_noise
from kbench.history.choose import choose_series
from kbench.history.moved import COMMIT, Moved, MovedProperty, moved_properties, sorted_out
from kbench.history.options import HistoryOptions
from kbench.history.report import HistoryChange, HistoryReport, JudgedSeries
from kbench.history.status_changes import StatusChange, status_changes
from kbench.history.storage.folder import HistoryFolder, read_history
from kbench.history.timeline import RunPoint, Series, SeriesKey, Timeline, join_runs

NEARBY_RUNS = 5
"""The level of the machine before and after a change is the median of so many runs."""

CLOCK_STEPS = 2
"""A change of so many steps of the clock or fewer is none, as in `kbench compare`."""

JudgedByKey = Mapping[SeriesKey, JudgedSeries]


def judge_history(path: Path, options: HistoryOptions) -> HistoryReport:
    """Read and judge a folder. Raises ResultsError for a folder without readings, and UsageError if `where` chooses none."""
    return judge_runs(read_history(path), options)


def judge_runs(found: HistoryFolder, options: HistoryOptions) -> HistoryReport:
    """Judge the runs of a folder. Raises as `judge_history` does."""
    timeline = join_runs(found)
    if not timeline.series:
        raise ResultsError(f"{found.path}: no file has a reading of a provider; add results with `kbench history add`")
    chosen = choose_series(timeline.series, options.where, found.path)
    judged = {each.series.key: each for each in _judge_levels(timeline.series, options.margin)}
    first = _first_recent(timeline, options.recent)
    changes = [_level_change(each, judged, timeline, first, options) for each in _in_order(chosen, judged)]
    changes += [_status_change(each, judged, timeline, first, options) for each in status_changes(timeline, chosen)]
    changes.sort(key=lambda change: (change.runs[0], change.kind.rank, change.series.key.order))
    return HistoryReport(found.path, options, timeline, tuple(judged[each.key] for each in chosen), tuple(changes))


def _judge_levels(series: Sequence[Series], margin: float) -> Iterator[JudgedSeries]:
    """The noise and the changes of level of each series. Series of a machine share what is known of their noise."""
    own = {each.key: own_noise(np.array(each.logs)) for each in series}
    of_machine: dict[str, list[float]] = defaultdict(list)
    for key, noise in own.items():
        if noise is not None:
            of_machine[key.machine].append(noise)
    for each in series:
        others = of_machine[each.key.machine]
        step = each.clock_step
        usual = statistics.median(others) if others else None
        noise = shared_noise(own[each.key], len(each.logs), usual, step)
        least = math.log1p(max(margin, CLOCK_STEPS * step))
        yield JudgedSeries(each, noise, tuple(level_changes(np.array(each.logs), noise, least)))


def _first_recent(timeline: Timeline, recent: int) -> dict[tuple[str, str], int]:
    """For each machine and operator, the place of the first run whose changes are recent."""
    runs: dict[tuple[str, str], set[int]] = defaultdict(set)
    for series in timeline.series:
        runs[series.key.machine, series.key.operator].update(point.run for point in series.points)
    return {key: sorted(places)[-recent:][0] for key, places in runs.items()}


def _in_order(chosen: Sequence[Series], judged: JudgedByKey) -> Iterator[tuple[JudgedSeries, LevelChange]]:
    for series in chosen:
        for change in judged[series.key].levels:
            yield judged[series.key], change


def _level_change(
    found: tuple[JudgedSeries, LevelChange],
    judged: JudgedByKey,
    timeline: Timeline,
    first: Mapping[tuple[str, str], int],
    options: HistoryOptions,
) -> HistoryChange:
    whole, change = found
    series, points = whole.series, whole.series.timed
    runs = points[change.earliest].run, points[change.latest].run
    effect = change.after - change.before
    neighbours = points[change.at - 1], points[change.at]
    around = points[change.earliest - 1], points[change.latest]
    moved = _moved(series, neighbours, around, judged, timeline, options.margin)
    return HistoryChange(
        kind=Verdict.SLOWER if effect > 0 else Verdict.FASTER,
        series=series,
        before=neighbours[0],
        at=neighbours[1],
        runs=runs,
        moved=moved,
        recent=points[change.at].run >= first[series.key.machine, series.key.operator],
        old_ms=math.exp(change.before),
        new_ms=math.exp(change.after),
        ratio=math.exp(effect),
        ci=(math.exp(effect - change.half_width), math.exp(effect + change.half_width)),
    )


def _status_change(
    found: StatusChange,
    judged: JudgedByKey,
    timeline: Timeline,
    first: Mapping[tuple[str, str], int],
    options: HistoryOptions,
) -> HistoryChange:
    series, runs = found.series, (found.run, found.run)
    moved = Moved()
    if found.before and found.before is not found.at:
        pair = found.before, found.at
        moved = _moved(series, pair, pair, judged, timeline, options.margin)
    return HistoryChange(
        kind=found.kind,
        series=series,
        before=found.before,
        at=found.at,
        runs=runs,
        moved=moved,
        recent=found.run >= first[series.key.machine, series.key.operator],
        reason=found.reason,
    )


# -- what moved


def _moved(
    series: Series,
    neighbours: tuple[RunPoint, RunPoint],
    around: tuple[RunPoint, RunPoint],
    judged: JudgedByKey,
    timeline: Timeline,
    margin: float,
) -> Moved:
    """What differs between the neighbours of a change; where they agree, what differs between the points around all places at
    which the change may lie."""
    near, far = (sorted_out(moved_properties(old.facts, new.facts)) for old, new in (neighbours, around))
    old, new = around
    machine = list(near["machine"] or far["machine"])
    if old.device_uuid != new.device_uuid:
        machine.append(MovedProperty("device UUID", old.device_uuid or "unknown", new.device_uuid or "unknown"))
    if (level := _moved_level(timeline, series.key.machine, old.run, new.run)) and abs(level) >= math.log1p(margin):
        machine.append(MovedProperty("copy control, subtracted", "0 %", f"{math.expm1(level):+.1%}".replace("%", " %")))
    return Moved(
        code=_moved_code(*neighbours, timeline) or _moved_code(*around, timeline),
        baseline=_moved_baseline(series, (old.run + 1, new.run), judged, timeline),
        machine=tuple(machine),
        stack=near["stack"] or far["stack"],
        settings=near["settings"] or far["settings"],
    )


def _moved_code(old: RunPoint, new: RunPoint, timeline: Timeline) -> tuple[MovedProperty, ...]:
    if old.source_hash == new.source_hash or not (old.source_hash and new.source_hash):
        return ()
    commits = timeline.runs[old.run].commit, timeline.runs[new.run].commit
    known = MovedProperty("source_hash", old.source_hash, new.source_hash)
    return (MovedProperty(COMMIT, *commits), known) if all(commits) and commits[0] != commits[1] else (known,)


def _moved_baseline(
    series: Series, runs: tuple[int, int], judged: JudgedByKey, timeline: Timeline
) -> tuple[str, float] | None:
    """The baseline of the same case, if its own level changed in the same runs, and that change as a ratio."""
    name = timeline.runs[runs[1]].baseline
    if not name or name == series.key.configuration:
        return None
    for other in judged.values():
        if other.series.key.case != series.key.case or other.series.key.configuration != name:
            continue
        for change in other.levels:
            points = other.series.timed
            if points[change.earliest].run <= runs[1] and points[change.latest].run >= runs[0]:
                return name, math.exp(change.after - change.before)
    return None


def _moved_level(timeline: Timeline, machine: str, old: int, new: int) -> float:
    """How much slower the copies of a machine became between two runs, in log time."""
    levels = sorted((run, level) for (run, name), level in timeline.levels.items() if name == machine)
    before = [level for run, level in levels if run <= old][-NEARBY_RUNS:]
    after = [level for run, level in levels if run >= new][:NEARBY_RUNS]
    return statistics.median(after) - statistics.median(before) if before and after else 0.0
