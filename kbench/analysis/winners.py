"""The winner of a case: the fastest configuration, and the configurations that tie with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from kbench.analysis.cases import CaseKey, RowsByConfiguration
from kbench.analysis.pairwise import Outcome, PairwiseComparison
from kbench.results.case import Case
from kbench.results.row import Row

ComparePair = Callable[[CaseKey, str, str], PairwiseComparison]


@dataclass(frozen=True)
class Winner:
    """The fastest configuration of a case.

    ms       its time: the median of its sessions'
    margin   the runner-up's time over its own, round by round; infinite where there is no runner-up
    tied     the configurations that are shown to be as fast
    unclear  the configurations that may be slower or not: the measurements do not tell
    rows     its rows, one for each session
    """

    key: CaseKey
    case: Case
    configuration_name: str
    ms: float
    margin: float
    tied: tuple[str, ...]
    unclear: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def alone(self) -> bool:
        """Whether no other configuration has a time."""
        return math.isinf(self.margin)

    @property
    def sole(self) -> bool:
        """Whether there are other configurations, and all are shown to be slower."""
        return not (self.alone or self.tied or self.unclear)


def winner(key: CaseKey, configurations: RowsByConfiguration, compare: ComparePair) -> Winner:
    """The winner among configurations that have a time: the one with the shortest time, unless another is faster round by
    round. Configurations with equal times are sorted by name."""
    configurations = {name: configurations[name] for name in sorted(configurations)}
    times = {name: median(row.ms or math.inf for row in rows) for name, rows in configurations.items()}
    best = min(times, key=lambda name: times[name])
    against = {name: compare(key, best, name) for name in configurations if name != best}
    if beaten := [name for name, pair in against.items() if pair.outcome is Outcome.FASTER]:
        best = min(beaten, key=lambda name: against[name].ratio)
        against = {name: compare(key, best, name) for name in configurations if name != best}
    ranked = sorted(against, key=lambda name: against[name].ratio)
    return Winner(
        key,
        configurations[best][0].case,
        best,
        times[best],
        max(1.0, against[ranked[0]].ratio) if ranked else math.inf,
        tuple(name for name in ranked if against[name].outcome is Outcome.TIE),
        tuple(name for name in ranked if against[name].outcome in (Outcome.UNCLEAR, Outcome.FASTER)),
        tuple(configurations[best]),
    )
