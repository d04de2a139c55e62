"""The noise floor: how far two measurements of the same code differ. The `repeat` control measures the baseline again.

The two are compared like any two curves (`pairwise.py`). `Noise.floor` is the printed value: 95 % of the cases stay below it.
A difference must exceed more than the floor to count, because 5 % of the cases lie above it, and because a few cases predict
the next one poorly. `Noise.at` returns that limit for a case. It is the largest of

- what the same code exceeds in one case of a thousand, if the cases scatter normally. With few cases their scatter is hardly
  known, so the limit is many times the scatter;
- what the median of a case's trials exceeds in one case of a hundred, if each trial is drawn from all trials of the same
  code. This holds however much a few rounds are disturbed;
- the difference of the same code in this very case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

from kbench.analysis import rounds
from kbench.analysis.cases import CaseKey, key_of, timed
from kbench.analysis.pairwise import Difference, Limits, difference
from kbench.analysis.rounds import is_plausible
from kbench.results.row import Row
from kbench.results.vocabulary import Control, Role

SHARE = 0.95
"""The share of cases that stay below the noise floor."""

ALL_WITHIN = 20
"""With fewer cases than this, the noise floor is the largest pair."""

FALSE, FALSE_MIDDLE = 0.001, 0.01
"""The probabilities that the same code counts as different: by the scatter of cases, and by the scatter of their trials. The
second may be larger, because the trials of the pair itself must agree as well (`pairwise.py`)."""

USUAL, USUAL_CASES = 0.001, 2
"""The usual difference of the same code on an idle H200, 0.1 %. It has the weight of two cases of the file."""

TOO_NOISY = 0.20
"""Above this noise floor kbench ranks no provider."""

MEANINGLESS = 10
"""The highest share that is printed as a number; above it the text is "more than 1000 %"."""

BUSY_CORES = 0.25
"""Other processes are mentioned if they used at least this many cores."""


@dataclass(frozen=True)
class Noise:
    """The noise of a file. Shares: 0.01 is a time 1.01 times as long.

    pairs   by case, how far the same code was apart, in log time
    floor   what 95 % of the pairs stay within; None where there are none
    worst   the largest pair
    proof   what a difference must exceed in any case, in log time
    other_cores  the most that other processes used of the host while a case was measured; None where it is not known
    """

    pairs: Mapping[CaseKey, float]
    floor: float | None
    worst: float
    proof: float
    other_cores: float | None = None

    @property
    def too_noisy(self) -> bool:
        """Whether no ranking can be believed."""
        return self.floor is not None and self.floor > TOO_NOISY

    def at(self, key: CaseKey) -> Limits:
        """The limits that hold in a case."""
        if self.too_noisy:
            return Limits(math.inf, math.log1p(TOO_NOISY))
        return Limits(max(self.proof, self.pairs.get(key, 0.0)), math.log1p(self.floor or 0.0))

    def sentence(self) -> str:
        """The noise in one sentence."""
        if self.floor is None:
            return "noise floor: not known without a baseline to repeat"
        count = len({key.case for key in self.pairs})
        cases = f"{count} case{'s' * (count != 1)}"
        if self.too_noisy:
            return (
                f"this machine is too noisy to rank: two runs of the same code differed by {_up_to(self.worst)} "
                f"(repeat control, {cases}){self.load}"
            )
        where = f"in {cases}" if count < ALL_WITHIN else f"in 95 % of {cases}"
        return (
            f"noise floor: two runs of the same code differed by at most {percent(self.floor)} {where} "
            f"(repeat control){self.load}"
        )

    @property
    def load(self) -> str:
        """`; other processes used up to 1.1 cores`, or "" if that is not known or less than BUSY_CORES."""
        if self.other_cores is None or self.other_cores < BUSY_CORES:
            return ""
        return f"; other processes used up to {self.other_cores:.1f} cores"


def _up_to(share: float) -> str:
    return percent(share) if share > MEANINGLESS else f"up to {percent(share)}"


def percent(share: float) -> str:
    """`0.3 %`, with no more digits than mean something; `more than 1000 %`."""
    if share > MEANINGLESS:
        return f"more than {100 * MEANINGLESS} %"
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def noise_of(rows: Sequence[Row], baseline: str | None) -> Noise:
    """The noise of the rows of a file, of which `baseline` is the curve that was repeated."""
    sides: dict[CaseKey, tuple[list[Row], list[Row]]] = {}
    for row in rows:
        repeated = row.role == Role.CONTROL and row.provider == Control.REPEAT
        if timed(row) and (repeated or (row.role == Role.PROVIDER and row.curve == baseline)):
            sides.setdefault(key_of(row), ([], []))[repeated].append(row)
    differences = {key: _apart(*pair) for key, pair in sides.items()}
    found = {key: each for key, each in differences.items() if each}
    effects = {key: abs(each.effect) for key, each in found.items()}
    ordered = sorted(effects.values())
    floor = math.expm1(_floor(ordered)) if ordered else None
    cores = [row.other_cores for row in rows if row.other_cores is not None]
    return Noise(
        effects,
        floor,
        math.expm1(ordered[-1]) if ordered else 0.0,
        max(_of_cases(ordered, list(found.values())), _of_trials(list(found.values()))),
        max(cores, default=None),
    )


def _apart(baseline: Sequence[Row], repeats: Sequence[Row]) -> Difference | None:
    """A case's baseline and its repeat; None where no session has both. Where rows were selected, the baseline may be
    missing, but the repeat has its speed-up over it."""
    if {row.session for row in baseline} & {row.session for row in repeats}:
        return difference(baseline, repeats)
    logs = tuple(-math.log(row.speedup) for row in repeats if row.speedup and is_plausible(row.speedup))
    return Difference(median(logs), 0.0, True, len(logs), logs) if logs else None


def _floor(effects: Sequence[float]) -> float:
    """What 95 % of them stay within, the nearest first."""
    return effects[math.ceil(SHARE * len(effects)) - 1]


def _of_cases(effects: Sequence[float], found: Sequence[Difference]) -> float:
    """What the same code exceeds in one case of a thousand, given how far it was apart in some, the nearest first, which are
    held to scatter normally around no difference: Student's t. Cases beyond the noise floor count as if they were at it, for
    a disturbed case must not blur all others. The usual noise, or what rounds scatter, counts as some more cases: else one
    pair that agrees by chance would say that there is no noise."""
    usual = max(USUAL, median(rounds.standard_error(each.trials) for each in found) if found else 0.0)
    cases = len(effects) + USUAL_CASES
    squares = math.fsum(min(effect, _floor(effects)) ** 2 for effect in effects)
    scatter = math.sqrt((squares + USUAL_CASES * usual**2) / cases)
    return _student(cases) * scatter


def _of_trials(found: Sequence[Difference]) -> float:
    """What the median of a case's trials exceeds in one case of a hundred, if each is drawn from all trials of the same
    code, as much to one side as to the other. By how much the few furthest of them are off does not matter."""
    apart = sorted(abs(trial) for each in found for trial in each.trials)
    if not apart:
        return 0.0
    count = round(median(len(each.trials) for each in found))
    return apart[math.ceil((1 - 2 * _exceeding(count)) * len(apart)) - 1]


def _exceeding(count: int) -> float:
    """How probable a trial is of which half of `count` happen with probability FALSE_MIDDLE / 2."""
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
    """The quantile of Student's t that FALSE of it lies beyond on either side, from the normal one's (Abramowitz and
    Stegun 26.7.5): within 4 % from 3 degrees of freedom on. scipy's is exact and takes half a second to import."""
    z = NormalDist().inv_cdf(1 - FALSE / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / df**power for power, term in enumerate(terms))
