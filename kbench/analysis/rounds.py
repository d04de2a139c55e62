"""What the rounds of a session tell: how far the median of some may be off. In a round all providers of a case run within
the same second or two, so that two of them are best compared round by round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENT = 3.0
"""A difference within a session must exceed this many standard errors. It is more than the usual two, because a few rounds
estimate the scatter poorly."""


def logs(values: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values]


def standard_error(logs: Sequence[float]) -> float:
    """The standard error of the median of logarithms; 0 for fewer than two. The furthest of five values, the two furthest of
    nine and so on are pulled in to the next one (winsorised), so that a disturbed round has little weight."""
    if len(logs) < 2:
        return 0.0
    middle = statistics.median(logs)
    distances = sorted(abs(log - middle) for log in logs)
    aside = (len(distances) - 1) // 4
    near = distances[: len(distances) - aside]
    squares = math.fsum(distance**2 for distance in near) + aside * near[-1] ** 2
    return 1.25 * math.sqrt(squares / (len(logs) - 1 - aside) / len(logs))


def uncertainty(logs: Sequence[float]) -> float:
    """The difference in log time that exceeds the scatter of the rounds."""
    return CONFIDENT * standard_error(logs)


def ratios(old: Sequence[float], new: Sequence[float]) -> list[float]:
    """The second over the first, round by round, for the rounds that both have."""
    return [after / before for before, after in zip(old, new, strict=False)]
