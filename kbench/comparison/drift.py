"""How the machine changed between two files, measured by code that is the same in both.

There are two kinds of such gauges: the `copy` control of every case, and the baseline of every case if its code is the same. A
kernel may follow the clock of the device more, or less, than the gauges do. So the drift explains more than their own changes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from statistics import fmean, median
from typing import NamedTuple

from kbench.analysis import Analysis
from kbench.analysis.cases import timed
from kbench.comparison.model import CONDITIONS, Drift, Key
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Control

SHARE_OF_GAUGES = 0.5
"""A session counts for the drift if it has at least this share of the gauges of the session with the most gauges."""

TO_DEVIATION = 1.4826
"""The standard deviation of a normal distribution, divided by its median absolute deviation."""

GaugeTimes = dict[tuple[int, int], float]
"""Log times by side (0 is the old one) and session."""


class GaugeKey(NamedTuple):
    """The identity of a gauge without its session. `alike` must be equal on both sides: the conditions and the code."""

    case: Case
    kind: str
    alike: tuple[str, ...] = ()


def drifts_by_device(old: Analysis, new: Analysis, axes: Sequence[str], vary: Collection[str]) -> dict[str, Drift]:
    """The drift between the rows of two files, over the gauges that both have: for each device if `device` is one of the
    axes that identify a case, otherwise for the device "".

    Gauges with another definition of the case are paired if `vary` has `case_hash`. Another device, timer or cache changes
    the gauges themselves: that is no drift, even if it is in `vary`.
    """
    noise = max(old.noise.floor or 0.0, new.noise.floor or 0.0)
    baseline = old.baseline if old.baseline == new.baseline else None
    conditions = [name for name in CONDITIONS if name not in axes]
    if "case_hash" in vary:
        conditions.remove("case_hash")
    apart = "device" in axes
    devices = {""}
    if apart:
        devices = {row.device for row in old.rows} & {row.device for row in new.rows}
    drifts = {}
    for device in sorted(devices):
        times: dict[GaugeKey, GaugeTimes] = {}
        for side, rows in enumerate((old.rows, new.rows)):
            of_device = [row for row in rows if not apart or row.device == device]
            for key, row in _gauges(of_device, axes, conditions, baseline):
                times.setdefault(key, {})[side, row.session] = math.log(row.ms or math.nan)
        drifts[device] = estimate_drift(times, noise)
    return drifts or {"": Drift(noise=noise)}


def _gauges(
    rows: Sequence[Row], axes: Sequence[str], conditions: Sequence[str], baseline: str | None
) -> Iterator[tuple[GaugeKey, Row]]:
    """The rows of gauges that have a time. If only the baseline was measured, its change is what the user looks for.

    `conditions` are the columns that must be equal on both sides. `baseline` is the configuration that the speed-ups of both
    files refer to; None if they refer to different ones.
    """
    rows = [row for row in rows if timed(row)]
    alone = all(row.configuration_name == baseline for row in rows if row.of_provider)
    for row in rows:
        alike = [getattr(row, name) for name in conditions]
        if row.control is Control.COPY:
            kind = "copy control"
        elif row.of_provider and row.configuration_name == baseline and row.source_hash and not alone:
            kind = f"unchanged {baseline}"
            alike += [row.source_hash, row.env_id, row.code]
        else:
            continue
        yield GaugeKey(Key.of(row, axes).case, kind, tuple(alike)), row


def estimate_drift(times: dict[GaugeKey, GaugeTimes], noise: float = 0.0) -> Drift:
    """The drift that gauges show. Those that only one side has do not count, nor do those that lack a session: a session that
    was interrupted has few gauges, and must not discard those of the others."""
    times = {key: logs for key, logs in times.items() if {side for side, _ in logs} == {0, 1}}
    counts = Counter(session for logs in times.values() for session in logs)
    most = [0, 0]
    for (side, _), count in counts.items():
        most[side] = max(most[side], count)
    whole = {session for session, count in counts.items() if count >= SHARE_OF_GAUGES * most[session[0]]}
    times = {key: logs for key, logs in times.items() if whole <= logs.keys()}
    if not times:
        return Drift(noise=noise)
    middles = {key: fmean(logs[session] for session in whole) for key, logs in times.items()}
    levels: dict[str, GaugeTimes] = {}
    for kind in sorted({key.kind for key in times}):
        moved: dict[tuple[int, int], list[float]] = {}
        for key, logs in times.items():
            for session, log in logs.items() if key.kind == kind else ():
                moved.setdefault(session, []).append(log - middles[key])
        levels[kind] = {session: median(distances) for session, distances in moved.items()}
    shifts = {}
    for session in counts:
        if logs_of_kinds := [level[session] for level in levels.values() if session in level]:
            shifts[session] = fmean(logs_of_kinds)
    gauges = {kind: _change(level, whole) for kind, level in levels.items()}
    apart = {key: abs(_change(logs, whole) - gauges[key.kind]) for key, logs in times.items()}
    own: dict[Case, float] = {}
    for key, distance in apart.items():
        own[key.case] = max(distance, own.get(key.case, 0.0))
    scatter = TO_DEVIATION * median(apart.values())
    return Drift(shifts, gauges, len(own), noise, scatter, own)


def _change(logs: GaugeTimes, whole: Collection[tuple[int, int]]) -> float:
    """The mean over the whole sessions of the new side, less that of the old side."""
    old, new = (fmean(logs[session] for session in whole if session[0] == side) for side in (0, 1))
    return new - old
