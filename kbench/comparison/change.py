"""How large a change is: the sessions of two sides brought to one effect and one interval.

With two or more sessions on each side that is `stats`' business. With one, nothing is known of how sessions differ, and
the interval is a stated floor, or what the rounds of the session scatter where that is more. The providers of one file are
told apart by `kbench.analysis`, as at the end of a run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kbench.analysis import CaseKey, Duel, Noise, rounds
from kbench.analysis.duel import between, judge
from kbench.comparison import stats
from kbench.comparison.drift import Drift
from kbench.comparison.join import METRICS, Pair, Side
from kbench.results.timers import timer_kind

FLOOR = 0.03
"""What one session on a side must exceed: sessions of the same code differ by 0.5 to 1 % each, and there are many rows."""

LARGEST = 700.0
"""The largest logarithm of a ratio that a float can hold: intervals of noise without bounds are wider."""

DRIFTING = frozenset({"ms", "ms_min", "gbps", "achieved_gbps"})
"""Metrics that contain the machine's drift. `copy_fraction` is a ratio to the same control. The launch time is the host's."""

OF_ROUNDS = frozenset({"ms", "gbps", "copy_fraction"})
"""Metrics whose ratio between two providers of a case is that of their times, so that it can be taken round by round."""


@dataclass(frozen=True)
class Rules:
    """margin: the smallest change of interest, as a share. asked: whether somebody asked for that margin: else providers of
    one file are told apart by as little as the noise allows. vary: CONDITIONS that are meant to differ. paired: sides are of
    one file, and their sessions and rounds belong together. metric: see METRICS."""

    margin: float = 0.02
    vary: frozenset[str] = frozenset()
    paired: bool = False
    metric: str = "ms"
    asked: bool = False

    def ratio(self, effect: float) -> float:
        """A change in log time as a ratio of the metric."""
        return math.exp(min(max(-effect * METRICS[self.metric], -LARGEST), LARGEST))

    def interval(self, effect: float, half_width: float) -> tuple[float, float]:
        """Its interval as ratios of the metric, the smaller first."""
        ends = (self.ratio(effect - half_width), self.ratio(effect + half_width))
        return min(ends), max(ends)


@dataclass(frozen=True)
class Change:
    """A pair that has times on both sides, in logarithms of time: positive is slower. `sd` is that of a side's sessions.
    `duel` is how two providers of a file were told apart."""

    pair: Pair
    effect: float
    half_width: float
    p: float | None = None
    sd: float = 0.0
    duel: Duel | None = None


def changes(
    pairs: Sequence[Pair], drift: Drift, rules: Rules, noise: Noise | None = None
) -> tuple[list[Change], tuple[float, float] | None]:
    """The changes of one contender's pairs, in their order, and the interval of their geometric mean where all of them have
    several sessions. `noise` is that of the file whose providers are compared."""
    if noise is not None:
        return [_of_providers(pair, noise, rules) for pair in pairs], None
    replicated = [pair for pair in pairs if trials(pair, rules) > 1]
    if not replicated:
        return [_single(pair, drift, rules) for pair in pairs], None
    resolution = np.array([tick(pair) for pair in replicated])
    logs = [_pair_logs(pair, drift, rules) for pair in replicated]
    old, new = (_matrix(side) for side in zip(*logs, strict=True))
    effects = stats.between(old, new, resolution)
    columns = zip(replicated, effects.effect, effects.half_width, effects.p, effects.sd, strict=True)
    told = iter([Change(pair, float(e), float(h), float(p), float(sd)) for pair, e, h, p, sd in columns])
    found = [next(told) if trials(pair, rules) > 1 else _single(pair, drift, rules) for pair in pairs]
    whole = len(replicated) == len(pairs)
    return found, rules.interval(effects.mean, effects.mean_half_width) if whole else None


def _single(pair: Pair, drift: Drift, rules: Rules) -> Change:
    """A change with one session on a side: the interval is the floor, or wider where the rounds scatter more, or where the
    copy of the same case has moved."""
    old, new = sides_of(pair)
    before, after = (statistics.fmean(logs.values()) for logs in _pair_logs(pair, drift, rules))
    floor = max(FLOOR, 2 * drift.noise, math.expm1(2 * drift.of(pair.key.case).own(pair.key.case)))
    scatter = math.hypot(*(rounds.uncertainty(rounds.logs(side.readings[0].rounds)) for side in (old, new)))
    return Change(pair, after - before, max(math.log1p(floor), scatter))


def _of_providers(pair: Pair, noise: Noise, rules: Rules) -> Change:
    """Two providers of a file, as `kbench.analysis` tells them apart."""
    old, new = (
        {
            each.session: (each.value ** -METRICS[rules.metric], each.rounds if rules.metric in OF_ROUNDS else ())
            for each in side.readings
        }
        for side in sides_of(pair)
    )
    found = between(old, new)
    duel = judge(found, noise.at(_case_key(pair)), math.log1p(2 * tick(pair)))
    return Change(pair, found.effect, found.half_width, duel=duel)


def _case_key(pair: Pair) -> CaseKey:
    """The case of a pair whose sides were measured in one and the same way."""
    old, _ = sides_of(pair)
    how = {name: old.conditions[name][0] for name in ("device", "timer", "cache")}
    axes = tuple((name, value) for name, value in pair.key.axes if name != "device")
    return CaseKey((pair.key.operator, axes, pair.key.dtype), **how)


def sides_of(pair: Pair) -> tuple[Side, Side]:
    assert pair.old and pair.new  # both are ok, or `_without_times` had answered
    return pair.old, pair.new


def trials(pair: Pair, rules: Rules) -> int:
    """How many sessions the change can be told from."""
    old, new = sides_of(pair)
    if rules.paired:
        return len(old.by_session.keys() & new.by_session.keys())
    return min(len(old.readings), len(new.readings))


def _pair_logs(pair: Pair, drift: Drift, rules: Rules) -> list[dict[int, float]]:
    """Log times by session of both sides, the drift of the pair's device taken out."""
    shifts = drift.of(pair.key.case).removable
    return [_logs(side, shift, rules) for side, shift in zip(sides_of(pair), shifts, strict=True)]


def _logs(side: Side, shift: dict[int, float], rules: Rules) -> dict[int, float]:
    """Log times by session, the machine's drift taken out of those that have it in them."""
    if rules.metric not in DRIFTING:
        shift = {}
    return {
        reading.session: -METRICS[rules.metric] * math.log(reading.value) - shift.get(reading.session, 0.0)
        for reading in side.readings
    }


def _matrix(rows: Iterable[dict[int, float]]) -> stats.Array:
    rows = list(rows)
    sessions = sorted({session for row in rows for session in row})
    return np.array([[row.get(session, math.nan) for session in sessions] for row in rows])


def tick(pair: Pair) -> float:
    """The step of the timer as a share of the time; nothing where one of the timers has none."""
    sides = sides_of(pair)
    steps_ms = [timer_kind(name).resolution_ms for side in sides for name in side.conditions.get("timer") or ("",)]
    return min(steps_ms) / min(reading.ms for side in sides for reading in side.readings)
