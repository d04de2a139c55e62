"""Finds where the level of a series changes.

The method is that of Fearnhead and Rigaill, Changepoint Detection in the Presence of Outliers, J. Am. Stat. Assoc. 114, 2019.
A series has a constant level between change points. The best segmentation has the smallest sum of losses and penalties. The
loss of a point is the squared distance to its level, but at most OUTLIER squared (biweight loss), so that a disturbed run is an
outlier and not two changes. Each change costs a penalty. Dynamic programming finds the exact minimum over the candidate levels:
for each level, the smallest cost of the points so far that ends at this level.

All distances are in units of the noise of the series.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

_Array = npt.NDArray[np.float64]

OUTLIER = 3.0
"""A point further from its level than this many times the noise costs no more than at this distance, as in the paper."""

PENALTY = 4.0
"""A change costs this times the logarithm of the number of points. The paper has 2 for independent noise. Neighbouring
nights are not independent, so the penalty is twice as large. tools/history_simulation.py shows what follows from it."""

_SHORT = 60
"""The penalty of a shorter series is that of a series with this many points."""

SHORTEST_END = 3
"""So many points must follow a change. Fewer may be a busy night or two."""

FEWEST = 2 * SHORTEST_END
"""A shorter series has no change points: nothing is known of its noise."""

LEVEL_STEP = 0.2
"""The distance between candidate levels, in units of the noise. It costs at most 0.01 for each point."""

DOUBT = 2 * math.log(20)
"""A change may also lie at another point if that costs at most this more: a likelihood ratio of 20."""

FALLBACK_NOISE, LEAST_NOISE = 0.005, 0.001
"""The noise of a series if no series has enough points to tell, and the smallest: shares of the time. Sessions of the same code
differ by 0.5 to 1 % on an H200."""

PRIOR_POINTS = 10
"""The noise of a series is moved towards that of all series of its machine as if they were this many more points."""

NORMAL = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True)
class LevelChange:
    """A change of level.

    at                the place of the first point at the new level
    earliest, latest  the places at which the change may lie, `at` among them
    before, after     the levels
    half_width        half the width of the 95 % interval of `after - before`
    """

    at: int
    earliest: int
    latest: int
    before: float
    after: float
    half_width: float


def own_noise(values: _Array) -> float | None:
    """The standard deviation of a point, from the differences of neighbours, which a change of level hardly affects. None for
    fewer than FEWEST points."""
    if len(values) < FEWEST:
        return None
    return float(np.median(np.abs(np.diff(values))) * NORMAL / math.sqrt(2))


def shared_noise(noise_of_series: float | None, points: int, usual: float | None, step: float) -> float:
    """The noise of a series with so many points: its own, moved towards the usual one of its machine. The mean is geometric, so
    that a quiet series beside noisy ones stays quiet. `step` is that of the clock, as a share of the time."""
    least = max(step / math.sqrt(12), LEAST_NOISE)
    prior = max(FALLBACK_NOISE if usual is None else usual, least)
    if noise_of_series is None:
        return prior
    share = points / (points + PRIOR_POINTS)
    return math.exp(share * math.log(max(noise_of_series, least)) + (1 - share) * math.log(prior))


def level_changes(values: _Array, noise: float, margin: float) -> list[LevelChange]:
    """The changes of level by at least `margin` in a series of log times. `noise` and `margin` are in log time, too."""
    if len(values) < FEWEST:
        return []
    centre = float(np.median(values))
    scaled = (values - centre) / noise
    places = _segments(scaled, PENALTY * math.log(max(len(values), _SHORT)))
    if places and len(values) - places[-1] < SHORTEST_END:
        places.pop()
    while places:
        bounds = [0, *places, len(values)]
        levels = [_level(values[start:end], noise) for start, end in itertools.pairwise(bounds)]
        sizes = np.abs(np.diff(levels))
        smallest = int(sizes.argmin())
        if sizes[smallest] >= margin:
            break
        places.pop(smallest)
    if not places:
        return []
    return [
        _change(values, bounds[place : place + 3], (levels[place], levels[place + 1]), noise)
        for place in range(len(places))
    ]


def _segments(scaled: _Array, penalty: float) -> list[int]:
    """The places of the first points of all segments but the first."""
    candidates = _candidates(scaled)
    begins = np.zeros((len(scaled), len(candidates)), dtype=bool)
    best = np.zeros(len(scaled), dtype=np.intp)
    cost = np.minimum((scaled[0] - candidates) ** 2, OUTLIER**2)
    for place in range(1, len(scaled)):
        best[place] = cost.argmin()
        changed = cost[best[place]] + penalty
        begins[place] = changed < cost
        cost = np.minimum(cost, changed) + np.minimum((scaled[place] - candidates) ** 2, OUTLIER**2)
    level, places = int(cost.argmin()), []
    for place in range(len(scaled) - 1, 0, -1):
        if begins[place, level]:
            places.append(place)
            level = int(best[place])
    return places[::-1]


def _candidates(scaled: _Array) -> _Array:
    """Levels that a segment may have: the medians of three neighbours, rounded. No segment of three points or more is far
    from all of them, and a single outlier adds none."""
    medians = np.median(sliding_window_view(scaled, SHORTEST_END), axis=1)
    candidates: _Array = np.unique(np.round(medians / LEVEL_STEP)) * LEVEL_STEP
    return candidates


def _level(values: _Array, noise: float) -> float:
    """The mean without outliers."""
    middle = np.median(values)
    near = np.abs(values - middle) <= OUTLIER * noise
    return float(values[near].mean()) if near.any() else float(middle)


def _change(values: _Array, bounds: list[int], levels: tuple[float, float], noise: float) -> LevelChange:
    start, at, end = bounds
    losses = [np.minimum(((values[start:end] - level) / noise) ** 2, OUTLIER**2) for level in levels]
    before = np.concatenate([[0.0], np.cumsum(losses[0])])
    after = np.concatenate([[0.0], np.cumsum(losses[1])])
    costs = before + after[-1] - after  # of a change at each place from `start` to `end`
    likely = start + np.flatnonzero(costs <= costs[at - start] + DOUBT)
    likely = likely[(likely > start) & (likely < end)]
    spread = 1.96 * noise * math.sqrt(1 / (at - start) + 1 / (end - at))
    return LevelChange(at, int(min(likely.min(), at)), int(max(likely.max(), at)), *levels, spread)
