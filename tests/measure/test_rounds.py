"""How long each contender of a case is timed. The times of the contenders are made up."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kbench.measure.contender import Contender
from kbench.measure.controls import COPY_MS, REPEAT_MS, repeat
from kbench.measure.correctness.call import Call
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.machine.device import Device
from kbench.measure.machine.settling import SettledClock
from kbench.measure.machine.telemetry import Nothing
from kbench.measure.rounds import Rounds
from kbench.measure.steps import Steps
from kbench.protocol import MeasureSettings

Budgets = list[tuple[float, float]]


def contender(index: int, name: str, times: Callable[[int], float]) -> tuple[Contender, Budgets]:
    """A contender whose n-th round takes `times(n)` ms, and the budgets (warm-up, samples) that it was given."""
    budgets: Budgets = []

    def sample(warmup_ms: float, rep_ms: float) -> list[float]:
        budgets.append((warmup_ms, rep_ms))
        return [times(len(budgets) - 1)] * 3

    return Contender(index, name, {}, calls=[Call(lambda: None)], sample=sample), budgets


def timed(contenders: Sequence[Contender], **settings: Any) -> None:
    """Time the contenders; the first is the baseline."""
    device = Device()
    given = {"warmup_ms": 25, "rep_ms": 100, "rounds": 3, "seed": 0, "timeout_s": 60, "build_timeout_s": 60} | settings
    Rounds(
        contenders,
        inputs=SharedInputs(["x"], (torch.zeros(1),)),
        steps=Steps(device, lambda event: None),
        telemetry=Nothing(),
        clock=SettledClock(Nothing()),
        settings=MeasureSettings("do_bench", "cold", False, **given),
        order=random.Random(0),
    ).run()


def test_a_contender_warms_up_in_its_first_round_only() -> None:
    first, budgets = contender(0, "first", lambda n: 1.0)
    timed([first], rounds=3)
    assert budgets == [(25, 100), (0, 100), (0, 100)]


def test_controls_are_sampled_no_longer_than_they_need() -> None:
    again = repeat(1, contender(0, "first", lambda n: 1.0)[0])
    assert again.longest_ms == REPEAT_MS > COPY_MS
    again.sample, budgets = (found := contender(1, "repeat", lambda n: 1.0))[0].sample, found[1]
    timed([again], rounds=2)
    assert budgets == [(25, REPEAT_MS), (0, REPEAT_MS)]
    budgets.clear()
    again.rounds.clear()
    timed([again], rounds=1, rep_ms=5)
    assert budgets == [(25, 5)]
