"""Who is fastest in each case of a file, by how much, and how often."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from statistics import fmean, median

from kbench.analysis.cases import CaseKey, RowsByConfiguration, baseline_of, by_case, weight_of
from kbench.analysis.noise import Noise, noise_of
from kbench.analysis.pairwise import Outcome, TimeDifference, difference, ticks_of
from kbench.results.case import Case
from kbench.results.row import Row

FASTEST, TIED, UNCLEAR, ALONE = "*", "~", "?", ""
"""The marks of a winner: all others are slower, some tie with it, the measurements do not tell, there is no other."""

MARKS = {FASTEST: "fastest", TIED: "tie", UNCLEAR: "unclear"}
"""The marks that readers see, and what they mean."""


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
    configuration_name: str
    ms: float
    margin: float
    tied: tuple[str, ...]
    unclear: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def case(self) -> Case:
        return self.key.case

    @property
    def first(self) -> tuple[str, ...]:
        """The configurations that share the first place, or may do so."""
        return (self.configuration_name, *self.tied, *self.unclear)

    @property
    def mark(self) -> str:
        """How it holds the first place."""
        if len(self.first) > 1:
            return UNCLEAR if self.unclear else TIED
        return ALONE if math.isinf(self.margin) else FASTEST


@dataclass(frozen=True)
class Standing:
    """A configuration over all cases of a file.

    rows           its rows, with and without a time
    over_baseline  the comparison with the baseline, by case; empty for the baseline itself
    weights        how often cases occur; a case that is missing counts once
    timed          cases in which it has a time that is not suspect
    sole           cases in which all others are slower
    shared         cases in which it ties for the first place
    undecided      cases in which it may be the fastest, but the measurements do not tell
    """

    configuration_name: str
    rows: Sequence[Row]
    over_baseline: Mapping[CaseKey, TimeDifference]
    weights: Mapping[CaseKey, float]
    timed: int
    sole: int
    shared: int
    undecided: int

    def mean(self, mode: str | None = None) -> float | None:
        """The weighted geometric mean of its speed-ups over the baseline, in one mode or in all: 2.0 is twice as fast."""
        pairs = {key: pair for key, pair in self.over_baseline.items() if mode in (None, key.case.mode)}
        if not pairs:
            return None
        logs = [math.log(pair.ratio) for pair in pairs.values()]
        return math.exp(-fmean(logs, [self.weights.get(key, 1.0) for key in pairs]))

    def count(self, outcome: Outcome) -> int:
        """The number of cases with this outcome against the baseline."""
        return sum(pair.outcome is outcome for pair in self.over_baseline.values())

    @property
    def varies_by_mode(self) -> bool:
        """Whether it is faster more often than slower in some modes, but not in all."""
        counts: dict[str, Counter[Outcome]] = {}
        for key, pair in self.over_baseline.items():
            counts.setdefault(key.case.mode, Counter())[pair.outcome] += 1
        return len({outcomes[Outcome.FASTER] > outcomes[Outcome.SLOWER] for outcomes in counts.values()}) > 1


@dataclass(frozen=True)
class Analysis:
    """The analysis of the rows of one file. `cases` holds the timed rows of each case by configuration, without suspect
    configurations. `baseline` is the configuration that speed-ups are over."""

    rows: Sequence[Row]
    baseline: str | None
    cases: dict[CaseKey, RowsByConfiguration]
    noise: Noise

    def compare_pair(self, key: CaseKey, old: str, new: str) -> TimeDifference:
        """The comparison of the second configuration of a case with the first. Raises KeyError if one of them was not timed."""
        configurations = self.cases[key]
        apart = difference(configurations[old], configurations[new])
        return apart.judged(*self.noise.at(key), ticks_of(configurations[old] + configurations[new]))

    def winner(self, key: CaseKey, names: Iterable[str]) -> Winner:
        """The winner among some configurations that were timed in a case: the one with the shortest time, unless another is
        faster round by round. Configurations with equal times are sorted by name."""
        names = sorted(names)
        times = {name: median(row.ms or math.inf for row in self.cases[key][name]) for name in names}
        best = min(times, key=lambda name: times[name])
        against = {name: self.compare_pair(key, best, name) for name in names if name != best}
        if beaten := [name for name, pair in against.items() if pair.outcome is Outcome.FASTER]:
            best = min(beaten, key=lambda name: against[name].ratio)
            against = {name: self.compare_pair(key, best, name) for name in names if name != best}
        ranked = sorted(against, key=lambda name: against[name].ratio)
        return Winner(
            key,
            best,
            times[best],
            max(1.0, against[ranked[0]].ratio) if ranked else math.inf,
            tuple(name for name in ranked if against[name].outcome is Outcome.TIE),
            tuple(name for name in ranked if against[name].outcome in (Outcome.UNCLEAR, Outcome.FASTER)),
            tuple(self.cases[key][best]),
        )

    @cached_property
    def winners(self) -> list[Winner]:
        """A winner for every case in which a configuration was timed, in the order of the rows."""
        return [self.winner(key, configurations) for key, configurations in self.cases.items()]

    @cached_property
    def standings(self) -> list[Standing]:
        """A standing for every configuration, the highest mean speed-up first, configurations without one last."""
        rows_of: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.of_provider:
                rows_of.setdefault(row.configuration_name, []).append(row)
        first = first_places(self.winners)
        lines = []
        for name, rows in rows_of.items():
            timed = [key for key, configurations in self.cases.items() if name in configurations]
            over_baseline = {
                key: self.compare_pair(key, self.baseline, name)
                for key in timed
                if self.baseline is not None and name != self.baseline and self.baseline in self.cases[key]
            }
            lines.append(
                Standing(
                    name,
                    rows,
                    over_baseline,
                    self.weights,
                    len(timed),
                    first[FASTEST, name],
                    first[TIED, name],
                    first[UNCLEAR, name],
                )
            )
        return sorted(lines, key=self._rank, reverse=True)

    def _rank(self, line: Standing) -> float:
        if line.configuration_name == self.baseline and line.timed:
            return 1.0
        return line.mean() or 0.0

    @cached_property
    def weights(self) -> dict[CaseKey, float]:
        """How often each case occurs, if the rows have weights; otherwise empty."""
        weights = {key: weight_of(chain(*by_name.values())) for key, by_name in self.cases.items()}
        if set(weights.values()) <= {None}:
            return {}
        return {key: weight or 1.0 for key, weight in weights.items()}


def analyse(rows: Sequence[Row], baseline: str | None = None) -> Analysis:
    """The analysis of the rows of one file, controls included. `baseline` is that of the config; None finds it in the rows."""
    over = baseline_of(rows, baseline)
    return Analysis(rows, over, by_case(rows), noise_of(rows, over))


def first_places(winners: Iterable[Winner]) -> Counter[tuple[str, str]]:
    """How many cases each configuration leads, by the mark of the winner and the configuration."""
    return Counter((won.mark, name) for won in winners for name in won.first)
