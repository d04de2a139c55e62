"""A judged history: its series, and their changes."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kbench.comparison.verdict import Verdict
from kbench.history.change_points import LevelChange
from kbench.history.moved import Moved
from kbench.history.options import HistoryOptions
from kbench.history.timeline import RunPoint, Series, Timeline


@dataclass(frozen=True)
class HistoryChange:
    """A change of a series.

    at      the first point after the change, and `before` the last one before it, which a new series lacks
    runs    the places of the runs in which the change may have begun, the first and the last
    recent  whether it began in one of the last runs
    reason  why the series failed or is new; empty for a change of its level
    old_ms, new_ms, ratio, ci   the levels in ms without the drift of the machine, their quotient and its 95 % interval; None
                                if the status changed and not the level
    """

    kind: Verdict
    series: Series
    before: RunPoint | None
    at: RunPoint
    runs: tuple[int, int]
    moved: Moved
    recent: bool
    reason: str = ""
    old_ms: float | None = None
    new_ms: float | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None

    @property
    def event_run(self) -> int:
        """The place of the run in which the change is said to be."""
        return self.at.run if self.ratio is not None else self.runs[0]


@dataclass(frozen=True)
class JudgedSeries:
    """A series with the noise of its points, as a share of the time, and its changes of level. The places in `levels` are
    those of `Series.timed`."""

    series: Series
    noise: float
    levels: tuple[LevelChange, ...]

    @property
    def segments(self) -> list[tuple[int, int, float]]:
        """The first place, the place after the last, and the level of each segment of `Series.timed`, in log time."""
        logs = self.series.logs
        if not self.levels:
            return [(0, len(logs), statistics.median(logs))] if logs else []
        bounds = [0, *(change.at for change in self.levels), len(logs)]
        heights = [self.levels[0].before, *(change.after for change in self.levels)]
        return [(start, end, level) for (start, end), level in zip(itertools.pairwise(bounds), heights, strict=True)]


@dataclass(frozen=True)
class HistoryReport:
    """A judged history. `changes` are in the order of time."""

    path: Path
    options: HistoryOptions
    timeline: Timeline
    series: tuple[JudgedSeries, ...]
    changes: tuple[HistoryChange, ...]

    @cached_property
    def reported(self) -> tuple[HistoryChange, ...]:
        """The changes that the options ask for."""
        return tuple(change for change in self.changes if change.recent or self.options.everything)

    @cached_property
    def failing(self) -> tuple[HistoryChange, ...]:
        """The recent changes that fail the gate."""
        return tuple(change for change in self.changes if change.recent and change.kind in self.options.failing)

    @property
    def corrected(self) -> bool:
        """Whether the drift of the machine was subtracted from any time."""
        return any(point.corrected for each in self.series for point in each.series.timed)

    @property
    def timed(self) -> bool:
        """Whether any series has a time."""
        return any(each.series.timed for each in self.series)
