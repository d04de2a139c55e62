"""The probability that a ledger promotes a candidate that is not faster, and that it promotes one that is, by simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

import pytest

from kbench.judging.champion import SCREEN_SESSIONS, confirmed, evidence, level, worthwhile

Noise = Callable[[random.Random], float]


def quiet(rng: random.Random) -> float:
    """As on a GPU: sessions of the same code differ by 0.7 %, and something disturbs one in twenty."""
    return rng.gauss(0, 0.05 if rng.random() < 0.05 else 0.007)


def two_states(rng: random.Random) -> float:
    """A session is in one of two states, 4 % apart, and scatters little there: what a t test takes for certainty."""
    return rng.choice((-0.02, 0.02)) + rng.gauss(0, 0.001)


def loud(rng: random.Random) -> float:
    """As on a busy host."""
    return rng.gauss(0, 0.03)


def sessions(gain: float, noise: Noise, rng: random.Random) -> Iterator[float]:
    while True:
        yield gain + noise(rng)


def judged(gains: Iterator[float], confirmations: int) -> tuple[bool, int, int]:
    """Whether a candidate is promoted, the confirmations of the ledger afterwards, and the sessions that it took."""
    screen: list[float] = []
    while len(screen) < SCREEN_SESSIONS:
        screen.append(next(gains))
        if not worthwhile(screen):
            return False, confirmations, len(screen)
    confirmation: list[float] = []
    better = None
    while better is None:
        confirmation.append(next(gains))
        better = confirmed(screen, confirmation, level(confirmations + 1))
    return better, confirmations + 1, len(screen) + len(confirmation)


@pytest.mark.parametrize("noise", [quiet, two_states, loud])
def test_at_most_one_ledger_in_twenty_promotes_one_of_fifty_equal_candidates(noise: Noise) -> None:
    rng, ledgers, false = random.Random(1), 200, 0
    for _ in range(ledgers):
        confirmations, promoted = 0, False
        for _ in range(50):
            better, confirmations, _ = judged(sessions(0.0, noise, rng), confirmations)
            promoted |= better
        false += promoted
    assert false <= 0.05 * ledgers


@pytest.mark.parametrize("earlier", [0, 10, 30])
def test_a_candidate_that_is_3_percent_faster_is_promoted_also_late_in_a_ledger(earlier: int) -> None:
    rng = random.Random(2)
    outcomes = [judged(sessions(math.log(1.03), quiet, rng), earlier) for _ in range(200)]
    assert sum(better for better, _, _ in outcomes) >= 0.8 * len(outcomes)


def test_losers_take_few_sessions() -> None:
    rng = random.Random(3)
    equal, slower = ([judged(sessions(gain, quiet, rng), 5)[2] for _ in range(400)] for gain in (0.0, math.log(0.97)))
    assert sum(equal) / len(equal) < 4 and sum(slower) / len(slower) < 1.1


def test_the_levels_of_all_confirmations_together_are_5_percent_and_evidence_is_fair() -> None:
    assert sum(map(level, range(1, 100_000))) == pytest.approx(0.05, rel=1e-4)
    for gain in (0.001, 0.02, 3.0):
        both = [evidence([0.01, 0.02], [sign * gain]) for sign in (1, -1)]
        assert sum(both) / 2 == pytest.approx(1.0) and both[0] > 1
    assert evidence([0.01, -0.02], [0.03]) == 1.0  # nothing to bet on
