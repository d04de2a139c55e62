"""Judges a history: the changes of every series, and what moved with each."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kbench.comparison.verdict import Verdict
from kbench.errors import ResultsError
from kbench.history.causes import Causes
from kbench.history.change_points import LevelChange, level_changes, own_noise, shared_noise
from kbench.history.choose import choose_series
from kbench.history.moved import Moved
from kbench.history.options import HistoryOptions
from kbench.history.report import HistoryChange, HistoryReport, JudgedSeries
from kbench.history.status_changes import StatusChange, status_changes
from kbench.history.storage.folder import HistoryFolder, read_history
from kbench.history.timeline import Series, Timeline, join_runs

CLOCK_STEPS = 2
"""A change of so many steps of the clock or fewer is none, as in `kbench compare`."""


def judge_history(path: Path, options: HistoryOptions) -> HistoryReport:
    """Read and judge a folder. Raises ResultsError for a folder without readings, and UsageError if `where` chooses none."""
    return judge_runs(read_history(path), options)


def judge_runs(found: HistoryFolder, options: HistoryOptions) -> HistoryReport:
    """Judge the runs of a folder. Raises as `judge_history` does."""
    timeline = join_runs(found)
    if not timeline.series:
        raise ResultsError(
            f"{found.path}: the folder has no measurement of a provider; add results with `kbench history add`"
        )
    chosen = choose_series(timeline.series, options.where, found.path)
    judged = {each.series.key: each for each in _judge_levels(timeline.series, options.margin)}
    judge = _Judge(Causes(timeline, judged, options.margin), _first_recent(timeline, options.recent))
    of_levels = [judge.of_level(judged[each.key], change) for each in chosen for change in judged[each.key].levels]
    of_status = [judge.of_status(change) for change in status_changes(timeline, chosen)]
    changes = sorted(
        [*of_levels, *of_status], key=lambda change: (change.event_run, change.kind.rank, change.series.key.order)
    )
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


@dataclass(frozen=True)
class _Judge:
    """Describes changes. `first` has, for each machine and operator, the place of the first run whose changes are recent."""

    causes: Causes
    first: Mapping[tuple[str, str], int]

    def of_level(self, judged: JudgedSeries, change: LevelChange) -> HistoryChange:
        points = judged.series.timed
        neighbours = points[change.at - 1], points[change.at]
        around = points[change.earliest - 1], points[change.latest]
        effect = change.after - change.before
        return HistoryChange(
            kind=Verdict.SLOWER if effect > 0 else Verdict.FASTER,
            series=judged.series,
            before=neighbours[0],
            at=neighbours[1],
            runs=(points[change.earliest].run, points[change.latest].run),
            moved=self.causes.moved(judged.series, neighbours, around),
            recent=self._is_recent(judged.series, neighbours[1].run),
            old_ms=math.exp(change.before),
            new_ms=math.exp(change.after),
            ratio=math.exp(effect),
            ci=(math.exp(effect - change.half_width), math.exp(effect + change.half_width)),
        )

    def of_status(self, change: StatusChange) -> HistoryChange:
        moved = Moved()
        if change.before and change.before is not change.at:
            neighbours = change.before, change.at
            moved = self.causes.moved(change.series, neighbours, neighbours)
        return HistoryChange(
            kind=change.kind,
            series=change.series,
            before=change.before,
            at=change.at,
            runs=(change.run, change.run),
            moved=moved,
            recent=self._is_recent(change.series, change.run),
            reason=change.reason,
        )

    def _is_recent(self, series: Series, run: int) -> bool:
        return run >= self.first[series.key.machine, series.key.operator]
