"""Who wins, by how much, and whether that is more than noise: defined once, for run, show, compare, plot and report.

    analysis = analyse(rows, baseline)   # rows of one file, controls included; baseline: the config's, None to find it
    analysis.noise.floor                 # a share: 95 % of the pairs of the same code differ by less; None: not known
    analysis.noise.too_noisy             # then kbench ranks no provider, and analysis.noise.sentence() says why
    analysis.winners                     # a Winner per case: configuration_name, tied, unclear, margin
    analysis.standings                   # a Standing per configuration: geomean, faster/tied/slower/unclear, sole, shared
    analysis.headline()                  # one sentence: "cuda is fastest in 33 of 60 cases and tied in 19 more; ..."
    analysis.compare_pair(key, old, new) # two configurations of a case: a PairwiseComparison with outcome, ratio, half_width

The rule for two configurations of a case is in `pairwise.py`, the limits of a difference in `noise.py`, the winner of a case in
`winners.py`. Nothing here imports pandas, numpy or scipy: the end of a run must not wait for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kbench.analysis.cases import CaseKey, RowsByConfiguration, baseline_of, by_case, weight_of
from kbench.analysis.noise import Noise, noise_of
from kbench.analysis.pairwise import Outcome, PairwiseComparison, difference, judge_difference, ticks_of
from kbench.analysis.standings import Standing, fastest_sentence, standings
from kbench.analysis.winners import Winner, winner
from kbench.results.row import Row

__all__ = ["Analysis", "CaseKey", "Outcome", "Standing", "Winner", "analyse"]


@dataclass(frozen=True)
class Analysis:
    """The analysis of the rows of one file. `cases` holds the timed rows of each case by configuration, without suspect
    configurations."""

    rows: Sequence[Row]
    baseline: str | None
    cases: dict[CaseKey, RowsByConfiguration]
    noise: Noise

    def compare_pair(self, key: CaseKey, old: str, new: str) -> PairwiseComparison:
        """The comparison of the second configuration of a case with the first. Raises KeyError if one of them was not timed."""
        configurations = self.cases[key]
        apart = difference(configurations[old], configurations[new])
        return judge_difference(apart, self.noise.at(key), ticks_of(configurations[old] + configurations[new]))

    @cached_property
    def models(self) -> dict[CaseKey, str]:
        """The names of the models that have a case, between commas, for the cases whose rows name models."""
        named = {key: next((row.model for row in rows if row.model), "") for key, rows in self._timed_rows.items()}
        return {key: ", ".join(model.split(";")) for key, model in named.items() if model}

    @cached_property
    def weights(self) -> dict[CaseKey, float]:
        """How often each case occurs, if the rows have weights; otherwise empty."""
        weights = {key: weight_of(rows) for key, rows in self._timed_rows.items()}
        return {} if set(weights.values()) <= {None} else {key: weight or 1.0 for key, weight in weights.items()}

    @cached_property
    def _timed_rows(self) -> dict[CaseKey, list[Row]]:
        return {key: [row for rows in by_name.values() for row in rows] for key, by_name in self.cases.items()}

    @cached_property
    def winners(self) -> list[Winner]:
        """A winner for every case in which a configuration was timed, in the order of the rows."""
        return [winner(key, self.cases[key], self.compare_pair) for key in self.cases]

    @cached_property
    def standings(self) -> list[Standing]:
        """A standing for every configuration, the highest mean speed-up first, configurations without one last."""
        return standings(self.rows, self.cases, self.baseline, self.winners, self.compare_pair, self.weights)

    def headline(self) -> str:
        """The answer to "which is fastest here, by how much?" in one sentence."""
        return fastest_sentence(self.winners, self.standings, self.baseline, self.noise, self._count)

    @property
    def _count(self) -> int:
        """How many cases there are; one that was timed on two kinds of device counts twice."""
        return len({row.case for row in self.rows}) + len(self.cases) - len({key.case for key in self.cases})


def analyse(rows: Sequence[Row], baseline: str | None = None) -> Analysis:
    """The analysis of the rows of one file, controls included. `baseline` is the configuration that speed-ups are over."""
    over = baseline_of(rows, baseline)
    return Analysis(rows, over, by_case(rows), noise_of(rows, over))
