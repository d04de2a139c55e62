"""How well a time is known, from the scatter of its rounds. The rules that say who is faster use the same scatter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kbench.analysis.pairwise import log_ratios, uncertainty
from kbench.results.cells import is_plausible


@dataclass(frozen=True)
class Precision:
    """How far a time and its ratio to the baseline may be off, whichever is more, in log time.

    scatter   three standard errors of the median of the rounds
    rounding  half a step of the clock; more rounds do not lower it
    """

    scatter: float
    rounding: float

    @property
    def share(self) -> float:
        """Half the width of the interval, as a share of the time."""
        return math.expm1(max(self.scatter, self.rounding))

    def enough(self, limit: float) -> bool:
        """Whether more rounds are not needed to know the time to the share `limit`, or cannot help."""
        return self.scatter <= max(math.log1p(limit), self.rounding)


def precision_of(
    round_ms: Sequence[float], baseline_ms: Sequence[float] = (), *, resolution_ms: float
) -> Precision | None:
    """How well the median of these rounds is known, and that of their ratios to the rounds of the baseline, if it has any.

    None if there are fewer than two rounds, or if a time is implausible, such as 0. `resolution_ms` is a step of the clock.
    """
    together = list(baseline_ms[: len(round_ms)])
    if len(round_ms) < 2 or not all(map(is_plausible, (*round_ms, *together))):
        return None
    scatter = uncertainty(list(map(math.log, round_ms)))
    rounding = resolution_ms / 2 / median(round_ms)
    if together:
        scatter = max(scatter, uncertainty(log_ratios(together, round_ms)))
        rounding += resolution_ms / 2 / median(together)
    return Precision(scatter, rounding)
