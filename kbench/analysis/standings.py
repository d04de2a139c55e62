"""Who wins how often, and by how much over the baseline: a line for each configuration, and one sentence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from kbench.analysis.cases import CaseKey, RowsByConfiguration, suspects
from kbench.analysis.noise import Noise
from kbench.analysis.pairwise import Outcome, PairwiseComparison
from kbench.analysis.winners import ComparePair, Winner
from kbench.results.row import Row
from kbench.results.vocabulary import Role
from kbench.text.words import plural


@dataclass(frozen=True)
class Standing:
    """A configuration over all cases of a file.

    over_baseline   the comparison with the baseline, by case; empty for the baseline itself
    sole            cases in which all others are slower
    shared          cases in which it ties for the first place
    undecided       cases in which it may be the fastest, but the measurements do not tell
    timed           cases in which it has a time that is not suspect
    suspect         cases in which a time of it is suspect
    copy_fraction   median share of the copy control's GB/s
    tflops          largest TFLOP/s of the cases that arithmetic bounds; None if there are none
    sol             median share of the speed of light
    max_ulp         largest error in units in the last place, without wrong results
    weights         how often each case occurs, by case; empty if all cases count once
    """

    configuration_name: str
    over_baseline: Mapping[CaseKey, PairwiseComparison]
    sole: int
    shared: int
    undecided: int
    timed: int
    suspect: int
    copy_fraction: float | None
    tflops: float | None
    sol: float | None
    max_ulp: float | None
    weights: Mapping[CaseKey, float] = field(default_factory=dict)

    @property
    def geomean(self) -> float | None:
        """The geometric mean of its speed-ups over the baseline, weighted if there are weights: 2.0 is twice as fast."""
        logs = {key: math.log(comparison.ratio) for key, comparison in self.over_baseline.items()}
        return math.exp(-weighted_mean(logs.values(), [self.weights.get(key, 1.0) for key in logs])) if logs else None

    def count(self, outcome: Outcome) -> int:
        """The number of cases with this outcome against the baseline."""
        return sum(pair.outcome is outcome for pair in self.over_baseline.values())


def weighted_mean(values: Iterable[float], weights: Sequence[float]) -> float:
    """The mean of values that count by their weights. Weights are positive, and may be so large that their sum overflows."""
    largest = max(weights)
    return fmean(values, [weight / largest for weight in weights])


def standings(
    rows: Sequence[Row],
    cases: Mapping[CaseKey, RowsByConfiguration],
    baseline: str | None,
    winners: Sequence[Winner],
    compare: ComparePair,
    weights: Mapping[CaseKey, float],
) -> list[Standing]:
    """The standing of every provider's configuration, the highest geometric mean first, providers without one last."""
    sole, shared, undecided = places(winners)
    suspect = suspects(rows)
    lines = []
    for name in dict.fromkeys(row.configuration_name for row in rows if row.role == Role.PROVIDER):
        configuration_rows = [row for row in rows if row.role == Role.PROVIDER and row.configuration_name == name]
        timed = [key for key, configurations in cases.items() if name in configurations]
        against = [key for key in timed if baseline in cases[key]] if name != baseline else []
        copies = [row.copy_fraction for row in configuration_rows if row.copy_fraction is not None]
        lights = [row.sol for row in configuration_rows if row.sol is not None]
        errors = [row.max_ulp for row in configuration_rows if row.max_ulp is not None and not row.status.failed]
        lines.append(
            Standing(
                name,
                {key: compare(key, baseline, name) for key in against if baseline is not None},
                sole[name],
                shared[name],
                undecided[name],
                len(timed),
                sum(configuration == name for _, configuration in suspect),
                median(copies) if copies else None,
                max(
                    (row.tflops for row in configuration_rows if row.tflops is not None and row.bound_by_arithmetic),
                    default=None,
                ),
                median(lights) if lights else None,
                max(errors, default=None),
                weights,
            )
        )
    return sorted(lines, key=lambda standing: -(_rank(standing, baseline)))


def _rank(standing: Standing, baseline: str | None) -> float:
    if standing.configuration_name == baseline and standing.timed:
        return 1.0
    return standing.geomean or 0.0


def places(winners: Sequence[Winner]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Three counts for each configuration: cases in which all others are slower, cases in which it ties for the first place,
    and undecided cases. A case with a single configuration is in none."""
    sole = Counter(won.configuration_name for won in winners if won.sole)
    shared = Counter(
        name for won in winners if won.tied and not won.unclear for name in (won.configuration_name, *won.tied)
    )
    undecided = Counter(
        name for won in winners if won.unclear for name in (won.configuration_name, *won.tied, *won.unclear)
    )
    return sole, shared, undecided


def fastest_sentence(
    winners: Sequence[Winner], lines: Sequence[Standing], baseline: str | None, noise: Noise, cases: int
) -> str:
    """`cuda is fastest in 33 of 60 cases and tied in 19 more; 1.87x as fast as torch-native (geomean).`"""
    if not winners:
        if any(standing.suspect for standing in lines):
            return (
                "Every provider is suspect in every case in which it was timed: it is faster than possible (kbench explain "
                "suspect)."
            )
        return "No provider was timed."
    if noise.too_noisy:
        text = noise.sentence()
        return f"{text[0].upper()}{text[1:]}."
    if len(lines) == 1:
        [only] = lines
        timed = f"{only.configuration_name} was timed in {only.timed + only.suspect} of {plural(cases, 'case')}"
        if only.suspect:
            timed += f", but the times of {plural(only.suspect, 'case')} are suspect"
        return f"{timed}; there is no provider to compare it with."
    alone = sum(won.alone for won in winners)
    if alone == len(winners):
        return (
            f"Only one provider was timed{' in each case' if alone > 1 else ''}; there is nothing to compare it with."
        )
    best = max(lines, key=lambda standing: (standing.sole + standing.shared, standing.sole, standing.geomean or 1.0))
    open_ = sum(bool(won.unclear) for won in winners)
    only_one = f"; only one provider was timed in {plural(alone, 'case')}" if alone else ""
    if best.sole:
        text = f"{best.configuration_name} is fastest in {best.sole} of {plural(cases, 'case')}"
        text += f" and tied in {best.shared} more" if best.shared else ""
    elif best.shared:
        text = f"{best.configuration_name} is tied for fastest in {best.shared} of {plural(cases, 'case')}"
    else:
        where = f" in any of {cases} cases" if cases > 1 else ""
        text = f"The measurements do not tell which provider is fastest{where}: noise may explain the differences"
        return f"{text}{noise.load}{only_one}. More sessions may tell: run it again with --append --sessions 2."
    mean = best.geomean
    if mean is not None:
        shared = len(best.over_baseline)
        extent = (f" of {plural(shared, 'case')}" if shared < cases else "") + (", weighted" if best.weights else "")
        text += f"; {mean:.2f}x as fast as {baseline} (geomean{extent})"
    text += f"; {plural(open_, 'case')} unclear" if open_ else ""
    return f"{text}{only_one}."
