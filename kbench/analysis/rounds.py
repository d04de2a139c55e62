"""What the rounds of a session tell: how far the median of some may be off. In a round all providers of a case run within
the same second or two, so that two of them are best compared round by round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENT = 3.0
"""Standard errors that a difference must exceed to be one, for what is noisy within its session: of few
rounds the scatter is hardly known."""

CREDIBLE = (1e-9, 1e9)
"""Numbers outside of these bounds, in ms or GB/s, were measured by nobody: a femtosecond, eleven days."""


def credible(number: float) -> bool:
    return CREDIBLE[0] < number < CREDIBLE[1]


def logs(values: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values]


def read(cell: str) -> tuple[float, ...]:
    """The medians in ms that a `round_ms` cell of a results file holds: none of them where one is damaged, for they are
    only a second opinion."""
    found = tuple(map(float, cell.split(";"))) if cell else ()
    return found if all(map(credible, found)) else ()


def standard_error(logs: Sequence[float]) -> float:
    """Of the median of logarithms; 0 where there are not two. The furthest of five values, the two furthest of nine and
    so on count as if they were as far away as the next one: a disturbed round says nothing of the others."""
    if len(logs) < 2:
        return 0.0
    middle = statistics.median(logs)
    apart = sorted(abs(log - middle) for log in logs)
    aside = (len(apart) - 1) // 4
    kept = apart[: len(apart) - aside]
    squares = math.fsum(distance**2 for distance in kept) + aside * kept[-1] ** 2
    return 1.25 * math.sqrt(squares / (len(logs) - 1 - aside) / len(logs))


def uncertainty(logs: Sequence[float]) -> float:
    """What a difference must exceed, in log time, to be more than the scatter of its rounds."""
    return CONFIDENT * standard_error(logs)


def ratios(old: Sequence[float], new: Sequence[float]) -> list[float]:
    """The second over the first, round by round, as far as both have rounds."""
    return [after / before for before, after in zip(old, new, strict=False)]
