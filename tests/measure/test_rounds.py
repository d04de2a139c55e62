"""How long each contender of a case is timed. The times of the contenders are made up, and so is the clock: a round takes as
long as its budget."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from in_process import MadeUpInstruments

from kbench.measure import experiment as timing
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.experiment import Experiment
from kbench.measure.steps import Steps
from kbench.measure.tampering.guard import ProviderChanges
from kbench.measure.timing.timer import Samples
from kbench.protocol import Measure
from kbench.results.case import Case

Budgets = list[tuple[float, float]]


UNGUARDED: Any = SimpleNamespace(
    of_plugin=lambda plugin: ProviderChanges(), begin=lambda *step, timed: None, end=lambda: None
)
"""In place of the guard against tampering, which would look at everything before and after each of thousands of rounds."""

WALL_MS = [0.0]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = SimpleNamespace(perf_counter=lambda: WALL_MS[0] / 1e3, monotonic=time.monotonic)
    monkeypatch.setattr(timing, "time", made_up)


def contender(index: int, name: str, times: Callable[[int], float]) -> tuple[Contender, Budgets]:
    """A contender whose n-th round takes `times(n)` ms, and the budgets (warm-up, samples) that it was given."""
    budgets: Budgets = []

    def sample(warmup_ms: float, rep_ms: float) -> Samples:
        budgets.append((warmup_ms, rep_ms))
        WALL_MS[0] += warmup_ms + rep_ms
        return Samples([times(len(budgets) - 1)] * 3)

    return Contender(index, name, {}, calls=[Call(lambda: None)], sample=sample), budgets


def timed(contenders: Sequence[Contender], *, tick_ms: float = 0.0, **settings: Any) -> None:
    """Time the contenders; the first is the baseline."""
    given = {"warmup_ms": 25, "rep_ms": 100, "rounds": 3, "seed": 0, "timeout_s": 60, "build_timeout_s": 60} | settings
    measure = Measure(timer="do_bench" if tick_ms else "graph", cache="cold", **given)
    instruments = MadeUpInstruments()
    steps = Steps(instruments.device, lambda event: None, UNGUARDED)
    experiment = Experiment(instruments, steps, measure, 0, Case("softmax", {"M": 4}, "float32"))
    experiment.shared, experiment.baseline = SharedInputs(["x"], (torch.zeros(1),)), contenders[0]
    experiment.time(contenders)


def test_a_contender_warms_up_in_its_first_round_only() -> None:
    first, budgets = contender(0, "first", lambda n: 1.0)
    timed([first], rounds=3)
    assert budgets == [(25, 100), (0, 100), (0, 100)]


PRECISE = {"warmup_ms": 0, "rep_ms": 10, "rounds": 5, "precision": 0.005, "max_ms": 395}


def steady(round_number: int) -> float:
    """Rounds that differ by 0.1 %."""
    return 1.0 + 0.001 * (round_number % 2)


def unsteady(round_number: int) -> float:
    """Rounds that differ by 2 %: forty of them do not tell the time to 0.5 %."""
    return 1.0 + 0.02 * (round_number % 2)


def rounds_of(*contenders: tuple[str, Callable[[int], float]], **settings: Any) -> dict[str, int]:
    """The number of rounds that each contender had."""
    made = [contender(index, name, times)[0] for index, (name, times) in enumerate(contenders)]
    timed(made, **PRECISE | settings)
    return {each.name: len(each.rounds) for each in made}


def test_an_unsteady_provider_goes_on_to_the_limit_beside_the_baseline() -> None:
    found = rounds_of(("base", steady), ("steady", steady), ("unsteady", unsteady))
    assert found == {"base": 40, "steady": 5, "unsteady": 40}


def test_a_provider_leaves_as_soon_as_it_is_known_well_enough() -> None:
    generator = random.Random(1)
    series = [1 + generator.gauss(0, 0.006) for _ in range(400)]
    found = rounds_of(("base", series.__getitem__), max_ms=4000)
    assert 5 < found["base"] < 40
    more = rounds_of(("base", series.__getitem__), max_ms=4000, precision=0.0025)
    assert found["base"] < more["base"] < 400


def test_the_ratio_to_an_unsteady_baseline_counts() -> None:
    assert rounds_of(("base", unsteady), ("other", steady)) == {"base": 40, "other": 40}
    # disturbances that both have do not matter to the ratio, but to the times
    assert rounds_of(("base", unsteady), ("other", unsteady), precision=0.05) == {"base": 5, "other": 5}


def test_the_copy_needs_the_first_rounds_only() -> None:
    assert rounds_of(("base", unsteady), ("copy", unsteady), ("repeat", steady)) == {
        "base": 40,
        "copy": 5,
        "repeat": 40,
    }


def test_rounds_cannot_tell_more_than_the_clock() -> None:
    """Times of 5 us, on a clock that ticks every 32 ns."""
    tick_ms = 32e-6
    ticking = lambda n: (156 + n % 2) * tick_ms  # noqa: E731
    assert rounds_of(("base", ticking))["base"] > 5
    made = contender(0, "base", lambda n: 156 * tick_ms)[0]
    timed([made], **PRECISE | {"tick_ms": tick_ms, "precision": 0.001})
    found = made.precision(made, tick_ms)
    assert len(made.rounds) == 5 and found is not None and found.share == pytest.approx(0.5 / 156, rel=0.01)


def test_at_least_one_round_is_timed_whatever_the_limit() -> None:
    assert rounds_of(("base", steady), max_ms=1e-3) == {"base": 1}


def test_a_baseline_that_fails_holds_up_nobody() -> None:
    base, other = contender(0, "base", unsteady)[0], contender(1, "other", steady)[0]
    sample = base.sample

    def failing(warmup_ms: float, rep_ms: float) -> Samples:
        assert sample is not None and len(base.rounds) < 3, "the device is gone"
        return sample(warmup_ms, rep_ms)

    base.sample = failing
    timed([base, other], **PRECISE)
    assert not base.running and len(other.rounds) == 5


@pytest.mark.parametrize("scatter", [0.001, 0.003, 0.006])
def test_stopping_early_does_not_make_times_wrong(scatter: float) -> None:
    """Of cases whose rounds scatter normally, at least 95 % end within the precision that they were stopped at, on both sides
    of the truth alike."""
    generator = random.Random(int(scatter * 1e6))
    found = []
    for _ in range(200):
        case = contender(0, "base", lambda n: 1 + generator.gauss(0, scatter))[0]
        timed([case], **PRECISE | {"max_ms": 1000})
        found.append(statistics.median(case.round_ms) - 1)
    within = sum(abs(error) <= 0.005 for error in found) / len(found)
    above = sum(error > 0 for error in found) / len(found)
    assert within >= 0.95 and 0.4 < above < 0.6
