"""What else changed where a series changed: the code of the provider, the baseline, the machine, the stack or the settings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from kbench.history.timeline import RunPoint, Series, Timeline

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


NOTHING = Moved()


def moved_with(timeline: Timeline, series: Series, neighbours: Neighbours, around: Neighbours, margin: float) -> Moved:
    """What differs between the points around all places at which a change may lie. `neighbours` are those of its likely place.
    `margin` is the smallest change of the machine's level that is named, as a share."""
    return Moved(
        _moved_properties(timeline, *around),
        _moved_baseline(timeline, series, around),
        _moved_copies(timeline, series.key.machine, neighbours, margin),
    )


def _moved_properties(timeline: Timeline, old: RunPoint, new: RunPoint) -> dict[str, tuple[MovedProperty, ...]]:
    """The properties that differ, by kind. Those of an environment count only if both are known."""
    runs = timeline.runs[old.run], timeline.runs[new.run]
    kinds: dict[str, list[MovedProperty]] = {"code": [], "machine": [], "stack": [], "settings": []}
    if old.row.source_hash != new.row.source_hash and old.row.source_hash and new.row.source_hash:
        commits = runs[0].commit, runs[1].commit
        if all(commits) and commits[0] != commits[1]:
            kinds["code"].append(MovedProperty(COMMIT, *commits))
        kinds["code"].append(MovedProperty("source_hash", old.row.source_hash, new.row.source_hash))
    before, after = (run.facts.get(point.row.env_id, {}) for run, point in zip(runs, (old, new), strict=True))
    for name in dict.fromkeys([*before, *after]) if before and after else ():
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
    for other in timeline.series:
        if other.key.case != series.key.case or other.key.configuration_name != name:
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
