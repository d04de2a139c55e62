"""What the rounds of a session tell: how far the median of some may be off. In a round all providers of a case run within
the same second or two, so that two of them are best compared round by round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENT = 2.6
"""Standard errors that a difference must exceed to be one, for what is noisy within its session."""

CREDIBLE = (1e-9, 1e9)
"""Numbers outside of these bounds, in ms or GB/s, were measured by nobody: a femtosecond, eleven days."""


def credible(number: float) -> bool:
    return CREDIBLE[0] < number < CREDIBLE[1]


def read(cell: str) -> tuple[float, ...]:
    """The medians in ms that a `round_ms` cell of a results file holds: none of them where one is damaged, for they are
    only a second opinion."""
    found = tuple(map(float, cell.split(";"))) if cell else ()
    return found if all(map(credible, found)) else ()


def standard_error(values: Sequence[float]) -> float:
    """Of the median of positive values, in logarithms; 0 where there are not two."""
    logs = [math.log(value) for value in values]
    return 1.25 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0.0


def ratios(old: Sequence[float], new: Sequence[float]) -> list[float]:
    """The second over the first, round by round, as far as both have rounds."""
    return [after / before for before, after in zip(old, new, strict=False)]
