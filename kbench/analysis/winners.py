"""The winner of a case: the fastest curve, and the curves that tie with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from kbench.analysis.cases import CaseKey, Curves
from kbench.analysis.pairwise import Outcome, PairwiseComparison
from kbench.results.case import Case
from kbench.results.row import Row

ComparePair = Callable[[CaseKey, str, str], PairwiseComparison]


@dataclass(frozen=True)
class Winner:
    """The fastest curve of a case.

    ms       its time: the median of its sessions'
    margin   the runner-up's time over its own, round by round; infinite where there is no runner-up
    tied     the curves that are shown to be as fast
    unclear  the curves that may be slower or not: the measurements do not tell
    rows     its rows, one for each session
    """

    key: CaseKey
    case: Case
    curve: str
    ms: float
    margin: float
    tied: tuple[str, ...]
    unclear: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def sole(self) -> bool:
        """Whether all other curves are shown to be slower."""
        return not self.tied and not self.unclear


def winner(key: CaseKey, curves: Curves, compare: ComparePair) -> Winner:
    """The winner among curves that have a time: the curve with the shortest time, unless another is faster round by round.
    Curves with equal times are sorted by name."""
    curves = {curve: curves[curve] for curve in sorted(curves)}
    times = {curve: median(row.ms or math.inf for row in rows) for curve, rows in curves.items()}
    best = min(times, key=lambda curve: times[curve])
    against = {curve: compare(key, best, curve) for curve in curves if curve != best}
    if beaten := [curve for curve, found in against.items() if found.outcome is Outcome.FASTER]:
        best = min(beaten, key=lambda curve: against[curve].ratio)
        against = {curve: compare(key, best, curve) for curve in curves if curve != best}
    ranked = sorted(against, key=lambda curve: against[curve].ratio)
    return Winner(
        key,
        curves[best][0].case,
        best,
        times[best],
        max(1.0, against[ranked[0]].ratio) if ranked else math.inf,
        tuple(curve for curve in ranked if against[curve].outcome is Outcome.TIE),
        tuple(curve for curve in ranked if against[curve].outcome in (Outcome.UNCLEAR, Outcome.FASTER)),
        tuple(curves[best]),
    )
