"""An operator's own judge."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from in_process import matrices, measured, said
from torch import Tensor

from kbench.results.case import Case


def test_a_large_output_is_judged_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge of the operator sees all rows at once, even if kbench would slice them."""
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", 16)
    seen: set[tuple[int, ...]] = set()

    def look(case: Case, *tensors: Mapping[str, Tensor]) -> None:
        seen.add(tuple(len(x) for each in tensors for x in each.values()))

    made = matrices("judges-whole", lambda x: x * 2, check=look, rows="M")
    made.provider("right")(lambda x: x * 2)
    assert said(measured(made, M=32, N=8)["right"]) == "ok"
    assert seen == {(32, 32, 32)}


def test_gradients_beside_a_judge_are_judged_by_kbench() -> None:
    made = matrices("judges-gradients", lambda x: x * 2, check=lambda *tensors: None, gradients=("x",))
    made.provider("right")(lambda x: x * 2)
    made.provider("wrong-gradient")(lambda x: x * 2)
    made.backward("wrong-gradient")(lambda dy, x: dy * 3)
    for mode in ("backward", "full"):
        rows = measured(made, M=4, N=8, mode=mode)
        assert said(rows["right"]) == "ok" and rows["right"].max_ulp is not None
        assert said(rows["wrong-gradient"]).startswith("wrong gradient of x: every element wrong; first at [0, 0]")
