"""The noise floor: how far two measurements of the same code differ. The `repeat` control measures the baseline again.

The baseline and its repeat are compared like any two configurations (`pairwise.py`): the difference of a case is the median
over its rounds, or over its sessions if it has several. `Noise.floor` is the printed value: the difference does not exceed it
in 95 % of the cases. A single round or session can differ by more.
To count as real, a difference must exceed a higher limit than the floor: 5 % of the cases lie above the floor, and a few
cases predict the next case poorly. `Noise.at` returns this limit for a case. It is the largest of three values:

- The difference that the same code exceeds in one case of a thousand, if the differences follow a normal distribution. From
  few cases their scatter is poorly known, so the limit is then many times the scatter.
- The difference that the median of a case's trials exceeds in one case of a hundred, if each trial is drawn from the trials
  of all cases. Outliers among the rounds do not affect this value.
- The difference between the baseline and its repeat in this case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from kbench.analysis.cases import CaseKey, key_of, timed
from kbench.analysis.pairwise import TimeDifference, difference, standard_error
from kbench.results.row import Row
from kbench.results.vocabulary import Control
from kbench.text.numbers import MEANINGLESS, format_share
from kbench.text.words import plural

SHARE_WITHIN = 0.95
"""The share of cases that stay below the noise floor."""

ALL_WITHIN = 20
"""With fewer cases than this, the noise floor is the largest difference of all cases."""

FALSE, FALSE_MIDDLE = 0.001, 0.01
"""The probabilities that the same code counts as different: judged by the scatter of cases, and by the scatter of trials. The
second may be larger, because `pairwise.py` also requires that the trials of the pair agree."""

USUAL, USUAL_CASES = 0.001, 2
"""The usual difference of the same code on an idle H200, 0.1 %. It counts like two more cases of the file."""

TOO_NOISY = 0.20
"""If the noise floor is above this share, kbench ranks no provider."""

BUSY_CORES = 0.25
"""The sentence on noise mentions other processes if they used at least this many cores."""


@dataclass(frozen=True)
class Noise:
    """The noise of a file. A share of 0.01 means a time that is 1.01 times as long.

    pairs        for each case, the absolute difference between the baseline and its repeat, in log time
    floor        the share that 95 % of the pairs do not exceed; None if there are no pairs
    proof        the limit that a difference must exceed in every case, in log time
    other_cores  the largest number of cores that other processes used during a case; None if unknown
    sessions     the largest number of sessions of a pair
    """

    pairs: Mapping[CaseKey, float]
    floor: float | None
    proof: float
    other_cores: float | None = None
    sessions: int = 1

    @property
    def too_noisy(self) -> bool:
        """Whether the file is too noisy to rank providers."""
        return self.floor is not None and self.floor > TOO_NOISY

    def at(self, key: CaseKey) -> tuple[float, float]:
        """The limits for differences in a case, in log time: what one must exceed to count, and the noise floor."""
        if self.too_noisy:
            return math.inf, math.log1p(TOO_NOISY)
        return max(self.proof, self.pairs.get(key, 0.0)), math.log1p(self.floor or 0.0)

    def sentence(self, baseline: str = "the baseline") -> str:
        """The noise in one sentence. `baseline` is its name for the baseline."""
        if self.floor is None:
            return "noise floor: unknown, because no baseline was timed twice"
        count = len({key.case for key in self.pairs})
        cases = f"{plural(count, 'case')}"
        ratios = f"(median of the {'sessions' if self.sessions > 1 else 'rounds'}' ratios){self.load}"
        if self.too_noisy:
            return (
                f"this machine is too noisy to rank providers: two timings of {baseline} differed by "
                f"{_up_to(math.expm1(max(self.pairs.values())), count)} {cases} {ratios}"
            )
        every = {1: cases, 2: "both cases"}.get(count, f"all {cases}")
        where = f"in {every}" if count < ALL_WITHIN else f"in 95 % of {cases}"
        return f"noise floor: two timings of {baseline} differed by at most {format_share(self.floor)} {where} {ratios}"

    @property
    def load(self) -> str:
        """`; other processes used up to 1.1 cores`, or "" if that is not known or less than BUSY_CORES."""
        if self.other_cores is None or self.other_cores < BUSY_CORES:
            return ""
        return f"; other processes used up to {self.other_cores:.1f} CPU cores"


def _up_to(worst: float, cases: int) -> str:
    """`more than 1000 % in the worst of`, `up to 44 % in`"""
    if worst > MEANINGLESS:
        return f"{format_share(worst)} in" + (" the worst of" if cases > 1 else "")
    return f"up to {format_share(worst)} in"


def noise_of(rows: Sequence[Row], baseline: str | None) -> Noise:
    """The noise of the rows of a file. `baseline` is the configuration that the control `repeat` measured again."""
    sides: dict[CaseKey, tuple[list[Row], list[Row]]] = {}
    for row in rows:
        repeated = row.control is Control.REPEAT
        if timed(row) and (repeated or (row.of_provider and row.configuration_name == baseline)):
            sides.setdefault(key_of(row), ([], []))[repeated].append(row)
    by_case = {
        key: difference(baseline_rows, repeats)
        for key, (baseline_rows, repeats) in sides.items()
        if {row.session for row in baseline_rows} & {row.session for row in repeats}
    }
    differences = list(by_case.values())
    effects = {key: abs(case_difference.effect) for key, case_difference in by_case.items()}
    ordered = sorted(effects.values())
    floor = math.expm1(_floor(ordered)) if ordered else None
    cores = [row.other_cores for row in rows if row.other_cores is not None]
    return Noise(
        effects,
        floor,
        max(_of_cases(ordered, differences), _of_trials(differences)),
        max(cores, default=None),
        max((case_difference.sessions for case_difference in differences), default=1),
    )


def _floor(effects: Sequence[float]) -> float:
    """The value that 95 % of the effects do not exceed. `effects` are in ascending order."""
    return effects[math.ceil(SHARE_WITHIN * len(effects)) - 1]


def _of_cases(effects: Sequence[float], differences: Sequence[TimeDifference]) -> float:
    """The first of the three values, from Student's t distribution.

    `effects` are absolute differences in ascending order, taken as normally distributed around zero. An effect above the
    noise floor counts as the floor, so that one disturbed case does not raise the limit of all others. USUAL, or the scatter
    of the rounds if that is larger, counts as USUAL_CASES more cases. Otherwise one pair that agrees by chance would mean
    that there is no noise.
    """
    errors = [standard_error(case_difference.trials) for case_difference in differences]
    usual = max(USUAL, median(errors) if errors else 0.0)
    cases = len(effects) + USUAL_CASES
    squares = math.fsum(min(effect, _floor(effects)) ** 2 for effect in effects)
    scatter = math.sqrt((squares + USUAL_CASES * usual**2) / cases)
    return _student(cases) * scatter


def _of_trials(differences: Sequence[TimeDifference]) -> float:
    """The second of the three values. The trials get random signs."""
    distances = sorted(abs(trial) for case_difference in differences for trial in case_difference.trials)
    if not distances:
        return 0.0
    count = round(median(len(case_difference.trials) for case_difference in differences))
    return distances[math.ceil((1 - 2 * _exceeding(count)) * len(distances)) - 1]


def _exceeding(count: int) -> float:
    """The p for which at least half of `count` independent events of probability p happen with probability FALSE_MIDDLE / 2."""
    low, high = 0.0, 0.5
    for _ in range(40):
        middle = (low + high) / 2
        half = (count + 1) // 2
        tail = math.fsum(
            math.comb(count, hits) * middle**hits * (1 - middle) ** (count - hits) for hits in range(half, count + 1)
        )
        low, high = (low, middle) if tail > FALSE_MIDDLE / 2 else (middle, high)
    return low


def _student(df: int) -> float:
    """The two-sided quantile of Student's t for the probability FALSE, from the normal quantile (Abramowitz and Stegun
    26.7.5). The error is below 4 % from 3 degrees of freedom on. scipy is exact, but takes half a second to import."""
    z = NormalDist().inv_cdf(1 - FALSE / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / df**power for power, term in enumerate(terms))
