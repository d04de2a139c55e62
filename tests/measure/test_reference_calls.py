"""The reference is computed once per set of inputs, whatever the number of providers, and once for each timed call that is
judged. Its time is in no row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from in_process import case_run, checked_together, matrices
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.protocol import Message, StepBegun, StepEnded
from kbench.results.vocabulary import EdgeInput

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_operators")]

step: list[str] = []
calls: Counter[str] = Counter()


def reference(x: Tensor) -> Tensor:
    calls[step[-1] if step else "before"] += 1
    return x / (x.square().mean(-1, keepdim=True) + 1).sqrt()


def counted() -> Operator:
    made = matrices("counted", reference, rows="M", gradients="x")
    for name in "abc":
        made.provider(name)(lambda x: x / (x.square().mean(-1, keepdim=True) + 1).sqrt())
    return made


def note(message: Message) -> None:
    if isinstance(message, StepBegun):
        step.append(message.step)
    elif isinstance(message, StepEnded):
        step.pop()


def calls_of_run(operator: Operator, providers: str, **axes: Any) -> Counter[str]:
    """How often each step of a run calls the reference."""
    calls.clear()
    run = case_run(operator, list(providers), rounds=2, M=16, N=32, **axes)
    run.steps.emit = note
    assert all(row.status == "ok" for row in run.run())
    return Counter(calls)


@pytest.mark.parametrize(("mode", "slice_elements"), [("forward", 2**25), ("full", 4 * 32)])
def test_before_the_checks_it_is_computed_once_for_all_providers(
    mode: str, slice_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", slice_elements)
    operator = counted()
    one, three = calls_of_run(operator, "a", mode=mode), calls_of_run(operator, "abc", mode=mode)
    assert set(one) == {"before", "check"}, "never while building or timing"
    assert one["before"] == three["before"] and one["check"] <= three["check"] <= 3 * one["check"] + 6


def test_values_that_do_not_fit_are_computed_again_in_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbench.measure.correctness.expected.KEPT_BYTES", 100)
    monkeypatch.setattr("kbench.measure.correctness.expected.KEPT_SHARE", 0.0)
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", 4 * 32)
    assert set(calls_of_run(counted(), "a", mode="full")) == {"before", "check"}


def test_check_estimates_the_scale_once_for_all_providers_and_all_layouts_of_the_same_values() -> None:
    operator = counted()
    calls.clear()
    edges = checked_together(operator, "a", "b", M=16, N=32)["b"]
    layouts = {"random", EdgeInput.STRIDED_ROWS, EdgeInput.TRANSPOSED, EdgeInput.ODD_OFFSET}
    assert layouts < edges.keys()
    other_draws_and_nearby = 2
    assert calls.total() == 9 * len(edges.keys() - layouts) + 9 + len(layouts) - 1 + other_draws_and_nearby
