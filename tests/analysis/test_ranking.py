"""What is a difference, what is a tie, what cannot be told, and the sentence about the fastest provider.

Most runs are those of machines whose noise is known, because it is simulated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median

import pytest
from making import row

from kbench.analysis import Analysis, Outcome, analyse
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Role, Status
from kbench.summary import headline
from kbench.summary.tables import standings_table

Disturbance = Callable[[random.Random], float]
"""By how much one round is slower than it should be, in log time."""


def quiet(share: float) -> Disturbance:
    """Normal noise of a round."""
    return lambda rng: rng.gauss(0.0, share)


def disturbed(share: float, every: int, factor: float = 40.0) -> Disturbance:
    """Normal noise, and one round in so many takes up to `factor` times as long: another process had the core."""

    def of_round(rng: random.Random) -> float:
        hit = rng.random() < 1 / every
        return rng.gauss(0.0, share) + (rng.uniform(0.0, math.log(factor)) if hit else 0.0)

    return of_round


def run(
    rng: random.Random,
    noise: Disturbance,
    speedups: Mapping[str, float],
    *,
    cases: int = 3,
    rounds: int = 3,
    sessions: int = 1,
    placement: float = 0.0,
    session: float = 0.0,
) -> list[Row]:
    """The rows of a run: providers by name with their true speed-ups, the first of which is the baseline, and its repeat.

    `placement` is the standard deviation, in log time, of what a provider keeps in a case (where its memory lies), `session`
    of what it keeps in a session of a case.
    """
    names = [*speedups, "repeat"]
    rows = []
    for n in range(cases):
        case = Case("softmax", {"M": 256, "N": 256 * (n + 1)}, "float32")
        kept = {name: rng.gauss(0.0, placement) for name in names}
        for number in range(sessions):
            times = {}
            for name in names:
                level = math.exp(kept[name] + rng.gauss(0.0, session)) / speedups.get(name, 1.0)
                times[name] = tuple(level * math.exp(noise(rng)) for _ in range(rounds))
            base = median(times[names[0]])
            for name, round_ms in times.items():
                role = Role.CONTROL if name == "repeat" else Role.PROVIDER
                ms = median(round_ms)
                rows.append(
                    Row(case, name, role=role, session=number, ms=ms, round_ms=round_ms, speedup=base / ms, gbps=1 / ms)
                )
    return rows


TWINS = {"torch": 1.0, "mine": 1.0, "yours": 1.0}
RANKED = (Outcome.FASTER, Outcome.SLOWER)


def analyses(noise: Disturbance, speedups: Mapping[str, float], runs: int, **how: float) -> list[Analysis]:
    rng = random.Random(17)
    return [analyse(run(rng, noise, speedups, **how), "torch") for _ in range(runs)]  # type: ignore[arg-type]


def ranks_twins(found: Analysis) -> bool:
    """Whether anybody is ranked above anybody."""
    pairs = [("torch", "mine"), ("torch", "yours"), ("mine", "yours")]
    ranked = any(found.compare_pair(key, *pair).outcome in RANKED for key in found.cases for pair in pairs)
    return ranked or any(won.mark == "*" for won in found.winners)


@pytest.mark.parametrize(
    ("noise", "how"),
    [
        (disturbed(0.03, 9), {}),
        (disturbed(0.03, 4), {"cases": 4, "rounds": 5}),
        (disturbed(0.03, 2), {"cases": 4, "rounds": 9}),
        (disturbed(0.05, 3), {"sessions": 3}),
        (quiet(0.03), {"placement": 0.02}),
        (quiet(0.0015), {"cases": 10, "rounds": 5}),
    ],
    ids=["a round in 9", "in 4", "in 2", "in 3, 3 sessions", "placement", "quiet"],
)
def test_identical_code_under_two_names_is_not_ranked(noise: Disturbance, how: dict[str, float]) -> None:
    """Of 60 runs, each with nine to ninety pairs of the same code, at most one ranks any."""
    assert sum(map(ranks_twins, analyses(noise, TWINS, 60, **how))) <= 1


def test_one_disturbed_round_of_nine_does_not_hide_a_factor_of_two() -> None:
    rng = random.Random(3)
    rows = run(rng, quiet(0.03), {"torch": 1.0, "jit": 2.0}, rounds=9)
    hit = [replace(r, round_ms=(44.0, *r.round_ms[1:])) if r.provider == "jit" else r for r in rows]
    found = analyse(hit, "torch")
    assert [(won.configuration_name, won.mark) for won in found.winners] == [("jit", "*")] * 3
    assert found.standings[0].mean() == pytest.approx(2.0, rel=0.05)


def test_one_per_cent_is_a_win_on_a_quiet_machine() -> None:
    [found] = analyses(quiet(0.001), {"torch": 1.0, "mine": 1.01}, 1, cases=20, rounds=5)
    assert found.noise.floor is not None and found.noise.floor < 0.004
    assert sum(won.configuration_name == "mine" and won.mark == "*" for won in found.winners) >= 19
    assert headline(found).startswith("mine is fastest in ")


def test_the_floor_is_the_same_whether_the_repeat_was_faster_or_slower() -> None:
    """One 44 times as fast and one 44 times as slow are as noisy."""
    rows = run(random.Random(5), quiet(0.0), {"torch": 1.0, "mine": 1.0}, cases=1)

    def noise(factor: float) -> float:
        times = [replace(r, ms=factor, round_ms=(factor,) * 3) if r.provider == "repeat" else r for r in rows]
        return analyse(times, "torch").noise.floor or 0.0

    assert noise(44.0) == pytest.approx(noise(1 / 44.0)) == pytest.approx(43.0)


def test_the_runner_up_is_judged_round_by_round_not_by_medians() -> None:
    """The medians put `odd` first, but `even` is ahead in each round: the machine slowed down meanwhile."""
    case = Case("softmax", {"N": 256}, "float32")
    even = Row(case, "even", ms=1.5, round_ms=(1.0, 1.2, 1.5, 1.8, 2.0))
    odd = Row(case, "odd", ms=1.49, round_ms=(1.1, 1.32, 1.65, 1.98, 2.2))
    [won] = analyse([even, odd]).winners
    assert (won.configuration_name, won.mark) == ("even", "*") and won.margin == pytest.approx(1.1)


def test_sessions_that_share_nothing_cannot_be_told() -> None:
    rows = run(random.Random(9), quiet(0.001), {"torch": 1.0, "mine": 2.0}, cases=1)
    apart = [replace(row, session=row.provider == "mine") for row in rows]
    [won] = analyse(apart, "torch").winners
    assert won.unclear == ("torch",)


def test_the_limit_of_few_cases_is_wider_than_what_was_seen() -> None:
    few, many = (analyses(quiet(0.01), TWINS, 1, cases=cases, rounds=5)[0].noise for cases in (1, 60))
    assert many.floor is not None and math.expm1(many.proof) < 2.5 * many.floor
    assert few.proof > many.proof


def test_a_case_on_two_kinds_of_device_is_two_cases() -> None:
    rows = [
        replace(row, device=device, session=session)
        for session, device in enumerate(("H100", "H200"))
        for row in run(random.Random(12), quiet(0.001), {"torch": 1.0, "mine": 2.0}, cases=3, rounds=5)
    ]
    assert headline(analyse(rows, "torch")).startswith("mine is fastest in 6 of 6 cases")


# ---- standings


def timed(provider: str, *suspect: bool) -> list[Row]:
    return [row(n, provider=provider, flags=("suspect",) if each else ()) for n, each in enumerate(suspect, 1)]


def test_the_largest_error_is_that_of_right_results() -> None:
    wrong = replace(row(2, provider="mine"), status=Status.WRONG, reason="off", ms=None, round_ms=(), max_ulp=1e7)
    [mine] = standings_table(analyse([replace(row(1, provider="mine"), max_ulp=3.0), wrong])).rows
    assert mine[-1] == "3.0"


def test_a_provider_is_not_the_fastest_of_a_case_in_which_no_other_was_timed() -> None:
    alone = [*timed("mine", False), *[replace(row(2, provider="torch"), ms=3.0)]]
    found = analyse(alone)
    assert headline(found) == "Only one provider was timed in each case; there is nothing to compare it with."
    assert [line.sole for line in found.standings] == [0, 0]
    assert headline(analyse([*timed("mine", False), row(1, provider="torch", flags=("suspect",))])) == (
        "Only one provider was timed; there is nothing to compare it with."
    )

    both = run(random.Random(0), quiet(0.001), {"torch": 1.0, "mine": 2.0}, cases=2, rounds=5)
    once = [each for each in both if each.provider != "torch" or each.case != both[0].case]
    assert headline(analyse(once)) == (
        "mine is fastest in 1 of 2 cases; 2.00x as fast as torch (geomean of 1 case); only one provider was timed in 1 case."
    )
