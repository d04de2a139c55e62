"""A judged history: what the caller chose, and the changes of every series. docs/history.md describes its JSON."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.history.change_points import level_changes, own_noise, shared_noise
from kbench.history.changes import HistoryChange, changes_of
from kbench.history.timeline import Run, RunPoint, Series, SeriesKey, Timeline, join_runs, read_runs
from kbench.results.cells import MARGIN
from kbench.results.reader import Results
from kbench.results.row import csv_header
from kbench.results.row_filter import RowFilter
from kbench.text.suggest import unknown

JSON_VERSION = "kbench.history-check/1"
"""It changes if programs that read the document have to change."""

CLOCK_STEPS = 2
"""A change of so many steps of the clock or fewer is none, as in `kbench compare`."""

CHANGE = "change"
"""The word of `--fail-on` for all kinds of changes."""

CHANGE_KINDS = [kind for kind in Verdict if not kind.quiet and kind is not Verdict.SUSPECT]
"""The kinds of changes that can fail the gate. `untimed` cannot. A row that becomes suspect is `failed`."""


@dataclass(frozen=True)
class HistoryOptions:
    """What the caller chooses.

    where       which series, as kbench/results/row_filter.py reads it
    margin      the smallest change of a time that counts, as a share
    recent      a change is recent if it began in the last so many runs of its operator and machine
    everything  report the changes that are not recent, too
    fail_on     kinds of changes that fail the gate, or `change` for all

    Raises UsageError for a value that cannot be used.
    """

    where: str = ""
    margin: float = MARGIN
    recent: int = 10
    everything: bool = False
    fail_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kinds = (CHANGE, *(kind.value for kind in CHANGE_KINDS))
        for word in self.fail_on:
            if word not in kinds:
                raise UsageError(f"--fail-on: {unknown('kind of change', word, kinds)}")

    def fails(self, kind: Verdict) -> bool:
        """Whether a recent change of this kind fails the gate."""
        return kind in CHANGE_KINDS and (CHANGE in self.fail_on or kind.value in self.fail_on)


@dataclass(frozen=True)
class HistoryReport:
    """A judged history: the chosen series, changes in the order of time, and notes on files of the folder."""

    path: Path
    options: HistoryOptions
    timeline: Timeline
    series: tuple[Series, ...]
    changes: tuple[HistoryChange, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def reported(self) -> tuple[HistoryChange, ...]:
        """The changes that the options ask for."""
        return tuple(change for change in self.changes if change.recent or self.options.everything)

    @cached_property
    def failing(self) -> tuple[HistoryChange, ...]:
        """The recent changes that fail the gate."""
        return tuple(change for change in self.changes if change.recent and self.options.fails(change.kind))

    @property
    def corrected(self) -> bool:
        """Whether the drift of the machine was subtracted from any time."""
        return any(not point.uncorrected for series in self.series for point in series.timed)

    @property
    def uncorrected(self) -> int:
        """The number of rows with a time that have no copy control in their session."""
        return sum(point.uncorrected for series in self.series for point in series.points)

    @property
    def timed(self) -> bool:
        """Whether any series has a time."""
        return any(series.timed for series in self.series)

    def day(self, run: int) -> str:
        """The date of the run at this place."""
        return self.timeline.runs[run].started_at[:10]


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
        replace(change, recent=change.event_run >= first[series.key.machine, series.key.case.operator])
        for series in chosen
        for change in changes_of(series, timeline, options.margin)
    ]
    changes.sort(key=lambda change: (change.event_run, change.kind.rank, change.series.key.order))
    return HistoryReport(folder, options, timeline, tuple(chosen), tuple(changes))


def _with_levels(series: Sequence[Series], margin: float) -> Iterator[Series]:
    """The series with their noise and changes of level. Series of a machine share what is known of their noise."""
    noises: dict[str, list[float]] = defaultdict(list)
    for member in series:
        noise = own_noise(np.array(member.logs))
        noises[member.key.machine] += [] if noise is None else [noise]
    usual = {machine: statistics.median(of_machine) for machine, of_machine in noises.items() if of_machine}
    for member in series:
        logs, step = np.array(member.logs), member.clock_step
        noise = shared_noise(own_noise(logs), len(logs), usual.get(member.key.machine), step)
        least = math.log1p(max(margin, CLOCK_STEPS * step))
        yield replace(member, noise=noise, levels=tuple(level_changes(logs, noise, least)))


def _choose(series: Sequence[Series], where: str, folder: Path) -> list[Series]:
    """The series whose last row `where` chooses, in their order. Raises UsageError if there are none."""
    axes = dict.fromkeys(name for member in series for name in member.key.case.axes)
    rows = [member.points[-1].row for member in series]
    last = Results(folder, csv_header(axes), rows, range(len(rows)))
    chosen = RowFilter.parse(where)
    places = chosen.select(last).lines
    if chosen.terms and not places:
        raise UsageError(chosen.nothing(last))
    return [series[place] for place in places]


def _first_recent(timeline: Timeline, recent: int) -> dict[tuple[str, str], int]:
    """For each machine and operator, the place of the first run whose changes are recent."""
    runs: dict[tuple[str, str], set[int]] = defaultdict(set)
    for series in timeline.series:
        runs[series.key.machine, series.key.case.operator].update(point.run for point in series.points)
    return {key: sorted(places)[-recent:][0] for key, places in runs.items()}


def history_json(report: HistoryReport) -> str:
    """The document, with a line break at its end."""
    document = {
        "schema": JSON_VERSION,
        "passed": not report.failing,
        "fail_on": report.options.fail_on,
        "margin": report.options.margin,
        "runs": len(report.timeline.runs),
        "notes": report.notes,
        "uncorrected": report.uncorrected,
        "changes": [_change(change, report) for change in report.changes],
        "series": [
            {
                "series": _identity(series.key),
                "noise": series.noise,
                "points": [_point(point, report) for point in series.points],
            }
            for series in report.series
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _change(change: HistoryChange, report: HistoryReport) -> dict[str, Any]:
    baseline = dict(zip(("provider", "ratio"), change.baseline, strict=True)) if change.baseline else None
    return {
        "kind": change.kind.value,
        "recent": change.recent,
        "series": _identity(change.series.key),
        "before": _point(change.before, report),
        "at": _point(change.at, report),
        "earliest_run": change.runs[0],
        "latest_run": change.runs[1],
        "reason": change.reason,
        "old_ms": change.old_ms,
        "new_ms": change.new_ms,
        "ratio": change.ratio,
        "ci": change.ci,
        "moved": {
            **{kind: list(map(asdict, properties)) for kind, properties in change.moved.items()},
            "copies": change.copies,
            "baseline": baseline,
        },
    }


def _identity(key: SeriesKey) -> dict[str, Any]:
    return {
        **key.case.to_json(),
        "provider": key.provider,
        "params": key.params,
        "machine": key.machine,
        "timer": key.timer,
        "cache": key.cache,
        "case_hash": key.case_hash,
    }


def _point(point: RunPoint, report: HistoryReport) -> dict[str, Any]:
    return {
        "run": point.run,
        "started_at": point.started_at,
        "commit": report.timeline.runs[point.run].commit,
        "status": point.status,
        "ms": point.ms,
    }
