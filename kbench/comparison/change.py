"""How large a change is: the sessions of two sides brought to one effect and one interval.

With two or more sessions on each side that is `stats`' business. With one, nothing is known of how sessions differ, and
the interval is a stated floor, or what the rounds of the session scatter where that is more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kbench import rounds
from kbench.comparison import stats
from kbench.comparison.drift import Drift
from kbench.comparison.join import METRICS, Pair, Reading, Side
from kbench.results import TICK_MS

FLOOR = 0.03
"""What one session on a side must exceed: sessions of the same code differ by 0.5 to 1 % each, and there are many rows."""

LARGEST = 700.0
"""The largest logarithm of a ratio that a float can hold: intervals of noise without bounds are wider."""

DRIFTING = frozenset({"ms", "ms_min", "gbps", "moved_gbps"})
"""Metrics that have the machine's drift in them. `roofline` is a ratio to the same control, and a host's time is its own."""

OF_ROUNDS = frozenset({"ms", "gbps", "roofline"})
"""Metrics whose ratio between two providers of a case is that of their times, so that it can be taken round by round."""


@dataclass(frozen=True)
class Rules:
    """margin: the smallest change of interest, as a share. vary: CONDITIONS that are meant to differ. paired: sides are of
    one file, and their sessions and rounds belong together. metric: see METRICS."""

    margin: float = 0.02
    vary: frozenset[str] = frozenset()
    paired: bool = False
    metric: str = "ms"

    def ratio(self, effect: float) -> float:
        """A change in log time as a ratio of the metric."""
        return math.exp(min(max(-effect * METRICS[self.metric], -LARGEST), LARGEST))

    def interval(self, effect: float, half_width: float) -> tuple[float, float]:
        """Its interval as ratios of the metric, the smaller first."""
        ends = (self.ratio(effect - half_width), self.ratio(effect + half_width))
        return min(ends), max(ends)


@dataclass(frozen=True)
class Change:
    """A pair that has times on both sides, in logarithms of time: positive is slower. `sd` is that of a side's sessions."""

    pair: Pair
    effect: float
    half_width: float
    p: float | None = None
    sd: float = 0.0


def changes(pairs: Sequence[Pair], drift: Drift, rules: Rules) -> tuple[list[Change], tuple[float, float] | None]:
    """The changes of one contender's pairs, in their order, and the interval of their geometric mean where all of them have
    several sessions."""
    replicated = [pair for pair in pairs if trials(pair, rules) > 1]
    if not replicated:
        return [_single(pair, drift, rules) for pair in pairs], None
    resolution = np.array([tick(pair) for pair in replicated])
    if rules.paired:
        effects = stats.within(_matrix(_differences(pair, rules) for pair in replicated), resolution)
    else:
        logs = [_pair_logs(pair, drift, rules) for pair in replicated]
        old, new = (_matrix(side) for side in zip(*logs, strict=True))
        effects = stats.between(old, new, resolution)
    columns = zip(replicated, effects.effect, effects.half_width, effects.p, effects.sd, strict=True)
    told = iter([Change(pair, *map(float, numbers)) for pair, *numbers in columns])
    found = [next(told) if trials(pair, rules) > 1 else _single(pair, drift, rules) for pair in pairs]
    whole = len(replicated) == len(pairs)
    return found, rules.interval(effects.mean, effects.mean_half_width) if whole else None


def _single(pair: Pair, drift: Drift, rules: Rules) -> Change:
    """A change with one session on a side: the interval is the floor, or wider where the rounds scatter more, or where the
    copy of the same case has moved."""
    old, new = sides_of(pair)
    if rules.paired:
        [(session, effect)] = _differences(pair, rules).items()
        floor = max(rules.margin, drift.noise)
        both = old.by_session[session], new.by_session[session]
        ratios = _round_ratios(*both, rules)
        scatter = (
            rounds.standard_error(ratios)
            if ratios
            else math.hypot(*(rounds.standard_error(reading.rounds) for reading in both))
        )
    else:
        before, after = (statistics.fmean(logs.values()) for logs in _pair_logs(pair, drift, rules))
        effect = after - before
        floor = max(FLOOR, 2 * drift.noise, math.expm1(2 * drift.of(pair.key.case).own(pair.key.case)))
        scatter = math.hypot(*(rounds.standard_error(side.readings[0].rounds) for side in (old, new)))
    return Change(pair, effect, max(math.log1p(floor), rounds.CONFIDENT * scatter))


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


def _differences(pair: Pair, rules: Rules) -> dict[int, float]:
    """Log ratios by session. Those of times are medians over its rounds, in which both sides ran within the same second."""
    old, new = (side.by_session for side in sides_of(pair))
    differences = {}
    for session in old.keys() & new.keys():
        if ratios := _round_ratios(old[session], new[session], rules):
            differences[session] = math.log(statistics.median(ratios))
        else:
            differences[session] = -METRICS[rules.metric] * math.log(new[session].value / old[session].value)
    return differences


def _round_ratios(old: Reading, new: Reading, rules: Rules) -> list[float]:
    """Of the times, round by round; none where the metric is not made of them, or a side has no rounds."""
    if rules.metric not in OF_ROUNDS:
        return []
    return rounds.ratios(old.rounds, new.rounds)


def _matrix(rows: Iterable[dict[int, float]]) -> stats.Array:
    rows = list(rows)
    sessions = sorted({session for row in rows for session in row})
    return np.array([[row.get(session, math.nan) for session in sessions] for row in rows])


def tick(pair: Pair) -> float:
    """The step of the event clock as a share of the time; nothing where calls are timed many at once, in a graph."""
    sides = sides_of(pair)
    if any(side.conditions.get("timer") == ("graph",) for side in sides):
        return 0.0
    return TICK_MS / min(reading.ms for side in sides for reading in side.readings)
