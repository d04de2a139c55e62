"""How large a change is: one effect and one interval from the sessions of two sides.

With two or more sessions on each side, `stats` computes both. With one session, nothing is known about how sessions differ:
the interval is then a fixed floor, or wider where the rounds vary more.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kbench.analysis import rounds
from kbench.comparison import stats
from kbench.comparison.drift import Drift
from kbench.comparison.join import Pair, Side
from kbench.comparison.options import Rules

FLOOR = 0.03
"""The smallest change that a single session on a side can show. Sessions of the same code differ by 0.5 to 1 % each, and a
report has many rows."""


@dataclass(frozen=True)
class Change:
    """The change of a pair that has times on both sides, in log time: a positive effect is slower.

    half_width  of the 95 % interval
    p           the p value of "no change"; None where sessions do not give one
    sd          standard deviation between the sessions of one side
    """

    pair: Pair
    effect: float
    half_width: float
    p: float | None = None
    sd: float = 0.0


def changes(pairs: Sequence[Pair], drift: Drift, rules: Rules) -> tuple[list[Change], tuple[float, float] | None]:
    """The changes of one contender's pairs, in the order of the pairs, and the interval of their geometric mean, which is
    None unless all pairs have several sessions."""
    replicated = [pair for pair in pairs if pair.sessions > 1]
    if not replicated:
        return [_of_one_session(pair, drift, rules) for pair in pairs], None
    resolution = np.array([pair.timer_step for pair in replicated])
    logs = [_log_times(pair, drift, rules) for pair in replicated]
    old, new = (_matrix(side) for side in zip(*logs, strict=True))
    weights = np.array([pair.weight or 1.0 for pair in replicated])
    scatter = np.array([drift.of(pair.key.case).scatter for pair in replicated])
    effects = stats.estimate_effects(old, new, resolution, weights / weights.max(), scatter)
    columns = zip(replicated, effects.effect, effects.half_width, effects.p, effects.sd, strict=True)
    estimated = iter([Change(pair, float(e), float(h), float(p), float(sd)) for pair, e, h, p, sd in columns])
    found = [next(estimated) if pair.sessions > 1 else _of_one_session(pair, drift, rules) for pair in pairs]
    whole = len(replicated) == len(pairs)
    return found, rules.interval(effects.mean, effects.mean_half_width) if whole else None


def _of_one_session(pair: Pair, drift: Drift, rules: Rules) -> Change:
    """A change with one session on a side. The interval is the floor, or wider where the noise is larger, the rounds vary
    more, or the controls of the same case changed in another way than those of the others."""
    old, new = pair.sides
    before, after = (statistics.fmean(logs.values()) for logs in _log_times(pair, drift, rules))
    own = drift.of(pair.key.case).own.get(pair.key.case, 0.0)
    floor = max(FLOOR, 2 * drift.noise, math.expm1(2 * own))
    scatter = math.hypot(*(rounds.uncertainty(rounds.logs(side.readings[0].rounds)) for side in (old, new)))
    return Change(pair, after - before, max(math.log1p(floor), scatter))


def _log_times(pair: Pair, drift: Drift, rules: Rules) -> list[dict[int, float]]:
    """Log times of both sides by session, without the drift of the pair's device."""
    shifts = drift.of(pair.key.case).shifts
    return [_logs_of_side(side, shift, rules) for side, shift in zip(pair.sides, shifts, strict=True)]


def _logs_of_side(side: Side, shift: dict[int, float], rules: Rules) -> dict[int, float]:
    """Log times by session, less the machine's drift if the metric contains it."""
    if not rules.compared.drifts:
        shift = {}
    return {
        reading.session: -rules.compared.sign * math.log(reading.value) - shift.get(reading.session, 0.0)
        for reading in side.readings
    }


def _matrix(rows: Iterable[dict[int, float]]) -> stats.Array:
    """Log times of shape (rows, sessions), NaN where a row lacks a session."""
    rows = list(rows)
    sessions = sorted({session for row in rows for session in row})
    return np.array([[row.get(session, math.nan) for session in sessions] for row in rows])
