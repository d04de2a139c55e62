"""Judges a history: the changes of every series, and what moved with each."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from kbench.comparison.verdict import Verdict
from kbench.history.change_points import level_changes, own_noise, shared_noise
from kbench.history.moved import moved_with
from kbench.history.report import HistoryChange, HistoryOptions, HistoryReport
from kbench.history.runs import Run, read_runs
from kbench.history.statuses import status_changes
from kbench.history.timeline import Series, Timeline, join_runs
from kbench.results.reader import Results
from kbench.results.row import csv_header
from kbench.results.row_filter import RowFilter

CLOCK_STEPS = 2
"""A change of so many steps of the clock or fewer is none, as in `kbench compare`."""


def check_history(folder: Path, options: HistoryOptions) -> HistoryReport:
    """Read and judge a folder. Raises ResultsError for a folder without results, and UsageError if `where` chooses none."""
    runs, notes = read_runs(folder)
    return replace(judge_runs(folder, runs, options), notes=tuple(notes))


def judge_runs(folder: Path, runs: Sequence[Run], options: HistoryOptions) -> HistoryReport:
    """Judge the runs of a folder, which are in the order of time. Raises UsageError if `where` chooses no series."""
    timeline = join_runs(runs)
    timeline = replace(timeline, series=tuple(_with_levels(timeline.series, options.margin)))
    chosen = _choose(timeline.series, options.where, folder)
    first = _first_recent(timeline, options.recent)
    changes = [
        replace(change, recent=change.event_run >= first[change.series.key.machine, change.series.key.operator])
        for change in (
            *_changes_of_level(timeline, chosen, options.margin),
            *_changes_of_status(timeline, chosen, options.margin),
        )
    ]
    changes.sort(key=lambda change: (change.event_run, change.kind.rank, change.series.key.order))
    return HistoryReport(folder, options, timeline, tuple(chosen), tuple(changes))


def _with_levels(series: Sequence[Series], margin: float) -> Iterator[Series]:
    """The series with their noise and changes of level. Series of a machine share what is known of their noise."""
    own_noises = {one_series.key: own_noise(np.array(one_series.logs)) for one_series in series}
    of_machine: dict[str, list[float]] = defaultdict(list)
    for key, noise in own_noises.items():
        if noise is not None:
            of_machine[key.machine].append(noise)
    for one_series in series:
        noises = of_machine[one_series.key.machine]
        step = one_series.clock_step
        usual = statistics.median(noises) if noises else None
        noise = shared_noise(own_noises[one_series.key], len(one_series.logs), usual, step)
        least = math.log1p(max(margin, CLOCK_STEPS * step))
        yield replace(one_series, noise=noise, levels=tuple(level_changes(np.array(one_series.logs), noise, least)))


def _choose(series: Sequence[Series], where: str, folder: Path) -> list[Series]:
    """The series whose last row `where` chooses, in their order. Raises UsageError if there are none."""
    axes = dict.fromkeys(name for one_series in series for name, _ in one_series.key.axes)
    rows = [one_series.points[-1].row for one_series in series]
    last = Results(folder, csv_header(axes), rows, range(len(rows)))
    return [series[place] for place in RowFilter.parse(where).select_providers(last).lines]


def _changes_of_level(timeline: Timeline, chosen: Sequence[Series], margin: float) -> Iterator[HistoryChange]:
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
                moved=moved_with(timeline, series, neighbours, around, margin),
                old_ms=math.exp(change.before),
                new_ms=math.exp(change.after),
                ratio=math.exp(effect),
                ci=(math.exp(effect - change.half_width), math.exp(effect + change.half_width)),
            )


def _changes_of_status(timeline: Timeline, chosen: Sequence[Series], margin: float) -> Iterator[HistoryChange]:
    for change in status_changes(timeline, chosen):
        if change.before is change.at:  # the series ended
            yield change
            continue
        neighbours = change.before, change.at
        yield replace(change, moved=moved_with(timeline, change.series, neighbours, neighbours, margin))


def _first_recent(timeline: Timeline, recent: int) -> dict[tuple[str, str], int]:
    """For each machine and operator, the place of the first run whose changes are recent."""
    runs: dict[tuple[str, str], set[int]] = defaultdict(set)
    for series in timeline.series:
        runs[series.key.machine, series.key.operator].update(point.run for point in series.points)
    return {key: sorted(places)[-recent:][0] for key, places in runs.items()}
