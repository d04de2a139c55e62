"""The reference is computed once per set of inputs, whatever the number of providers, and once for each timed call that is
judged. Its time is in no row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from in_process import case_run, checked_edges, checked_together, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.correctness.error_scale import TRIALS
from kbench.measure.salting import ROWS_KEPT, WHOLE_KEPT
from kbench.protocol import Message, StepBegun, StepEnded

pytestmark = pytest.mark.slow  # each test measures several cases

SETS = 3
"""Sets of inputs of a case: those that are timed, and two others."""

step: list[str] = []
calls: Counter[str] = Counter()


def _reference(x: Tensor, w: Tensor) -> Tensor:
    calls[step[-1] if step else "before"] += 1
    return x * w / (x.square().mean(-1, keepdim=True) + 1).sqrt()


def _operator(name: str, **fields: Any) -> Operator:
    made = Operator(
        f"calls-{name}",
        axes=("M", "N"),
        inputs={"x": Declared("M", "N"), "w": Declared("N")},
        outputs={"y": Declared("M", "N")},
        reference=_reference,
        rows="M",
        gradients=("x", "w"),
        **fields,
    )
    for each in ("a", "b", "c", "d"):
        made.provider(each)(lambda x, w: x * w / (x.square().mean(-1, keepdim=True) + 1).sqrt())
    return made


def note(message: Message) -> None:
    if isinstance(message, StepBegun):
        step.append(message.step)
    elif isinstance(message, StepEnded):
        step.pop()


def _run(operator: Operator, providers: int, mode: str) -> Counter[str]:
    calls.clear()
    step.clear()
    run = case_run(operator, list(operator.providers)[:providers], rounds=2, mode=mode, M=16, N=32)
    run.steps.emit = note
    assert all(row.status == "ok" for row in run.run())
    return calls


@pytest.mark.parametrize(("mode", "scale"), [("forward", True), ("forward", False), ("full", False)])
def test_once_per_set_and_the_estimate_of_its_scale(mode: str, scale: bool) -> None:
    fields = {"scale": lambda case, y, x, w: y.abs()} if scale else {}
    operator = _operator(f"{mode}-{scale}", **fields)
    each = 1 if scale and mode == "forward" else 1 + TRIALS
    # gradients of w have no rows, so the whole reference is computed beside that of some rows
    judged = ROWS_KEPT if mode == "forward" else WHOLE_KEPT * 2
    for providers in (1, 3):
        assert _run(operator, providers, mode) == {"before": SETS * each, "check": providers * judged}


def test_in_slices_a_timed_call_is_judged_without_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scales of the outputs are kept, whether they were computed in slices or not."""
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", 4 * 32)
    operator, slices = _operator("sliced-backward"), 4
    for providers in (1, 3):
        counts = _run(operator, providers, "backward")
        judged = providers * WHOLE_KEPT
        assert counts["before"] == SETS * slices * (1 + TRIALS)
        # all of it, and the kept rows in slices of 4: two calls may have kept the same ones
        assert judged * slices < counts["check"] <= judged * (slices + 6)


def test_values_that_do_not_fit_are_computed_again_and_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept: each check computes the values anew, in the step of the check and never while building or timing."""
    monkeypatch.setattr("kbench.measure.correctness.expected.KEPT_BYTES", 100)
    monkeypatch.setattr("kbench.measure.correctness.expected.KEPT_SHARE", 0.0)
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", 4 * 32)
    assert set(_run(_operator("large"), 2, "full")) == {"before", "check"}
    wrong = _operator("large-wrong")
    wrong.provider("wrong")(lambda x, w: x * w)
    rows = {row.provider: said(row) for row in case_run(wrong, ["a", "wrong"], M=16, N=32).run()}
    assert rows["a"] == "ok" and rows["wrong"].startswith("wrong ")


def test_check_computes_the_reference_once_for_all_providers() -> None:
    operator = _operator("check")
    calls.clear()
    alone = checked_edges(operator, "a", M=16, N=32)
    once = calls.total()
    assert set(alone.values()) == {"checked"} and len(alone) > 5
    assert checked_together(operator, "a", "b", M=16, N=32) == {"a": alone, "b": alone}
    assert calls.total() == 2 * once
