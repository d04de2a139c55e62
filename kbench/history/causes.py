"""Finds what moved with a change of a history."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from kbench.history.moved import COMMIT, Moved, MovedProperty, moved_properties, sorted_out
from kbench.history.report import JudgedSeries
from kbench.history.timeline import RunPoint, Series, SeriesKey, Timeline

NEARBY_RUNS = 5
"""The level of the machine before and after a change is the median of so many runs."""

Neighbours = tuple[RunPoint, RunPoint]
"""The last point before a change and the first one after it."""


@dataclass(frozen=True)
class Causes:
    """`margin` is the smallest change of the machine's level that is named, as a share."""

    timeline: Timeline
    judged: Mapping[SeriesKey, JudgedSeries]
    margin: float

    def moved(self, series: Series, neighbours: Neighbours, around: Neighbours) -> Moved:
        """What differs between the neighbours of a change; where they agree, what differs between the points around all places
        at which the change may lie."""
        near, far = (sorted_out(moved_properties(old.facts, new.facts)) for old, new in (neighbours, around))
        return Moved(
            code=self._of_code(*neighbours) or self._of_code(*around),
            baseline=self._of_baseline(series, around),
            machine=(*(near["machine"] or far["machine"]), *_of_device(*around)),
            copies=self._of_copies(series.key.machine, *neighbours),
            stack=near["stack"] or far["stack"],
            settings=near["settings"] or far["settings"],
        )

    def _of_code(self, old: RunPoint, new: RunPoint) -> tuple[MovedProperty, ...]:
        if old.source_hash == new.source_hash or not (old.source_hash and new.source_hash):
            return ()
        commits = self.timeline.runs[old.run].commit, self.timeline.runs[new.run].commit
        known = MovedProperty("source_hash", old.source_hash, new.source_hash)
        return (MovedProperty(COMMIT, *commits), known) if all(commits) and commits[0] != commits[1] else (known,)

    def _of_baseline(self, series: Series, around: Neighbours) -> tuple[str, float] | None:
        """The baseline of the same case, if its own level changed in the same runs, and that change as a ratio."""
        first, last = around[0].run + 1, around[1].run
        name = self.timeline.runs[last].baseline
        if not name or name == series.key.configuration:
            return None
        for other in self.judged.values():
            if other.series.key.case != series.key.case or other.series.key.configuration != name:
                continue
            for change in other.levels:
                points = other.series.timed
                if points[change.earliest].run <= last and points[change.latest].run >= first:
                    return name, math.exp(change.after - change.before)
        return None

    def _of_copies(self, machine: str, old: RunPoint, new: RunPoint) -> float | None:
        """By what ratio the copies of a machine became slower; None if by less than the margin."""
        levels = sorted((run, level) for (run, name), level in self.timeline.levels.items() if name == machine)
        before = [level for run, level in levels if run <= old.run][-NEARBY_RUNS:]
        after = [level for run, level in levels if run >= new.run][:NEARBY_RUNS]
        if not before or not after:
            return None
        change = statistics.median(after) - statistics.median(before)
        return math.exp(change) if abs(change) >= math.log1p(self.margin) else None


def _of_device(old: RunPoint, new: RunPoint) -> tuple[MovedProperty, ...]:
    if old.device_uuid == new.device_uuid:
        return ()
    return (MovedProperty("device UUID", old.device_uuid or "unknown", new.device_uuid or "unknown"),)
