"""An operator's own judge: quantization within a rounding step, dropout by its statistics. And judges that are at fault."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from in_process import matrices, measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.results.case import Case

Tensors = Mapping[str, Tensor]
MATRIX = Declared("M", "N")


def _exactly(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.abs().amax(-1) / 127
    return (x / scale[:, None]).round().to(torch.int8), scale


def _one_step(case: Case, inputs: Tensors, outputs: Tensors, expected: Tensors) -> str | None:
    off = (outputs["scale"] / expected["scale"] - 1).abs().amax().item()
    if not off < 1e-5:
        return f"scale is off by {off:.2g}"
    steps = (outputs["q"].long() - expected["q"].long()).abs()
    return f"{int((steps > 1).sum())} values of q are off by more than a step" if (steps > 1).any() else None


quantize = Operator(
    "judges-quantize",
    axes=("M", "N"),
    inputs={"x": MATRIX},
    outputs={"q": Declared("M", "N", dtype="int8"), "scale": Declared("M", dtype="float32")},
    reference=_exactly,
    check=_one_step,
    rows="M",
)


@quantize.provider("right")
def right(x: Tensor) -> tuple[Tensor, Tensor]:
    scale = x.float().abs().amax(-1) / 127
    return (x.float() / scale[:, None]).round().to(torch.int8), scale


quantize.provider("coarse")(lambda x: (right(x)[0] // 8 * 8, right(x)[1]))


def test_a_large_output_is_judged_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge of the operator sees all rows at once, even if kbench would slice them."""
    monkeypatch.setattr("kbench.measure.correctness.expected.CHUNK_ELEMENTS", 16)
    found = {name: said(row) for name, row in measured(quantize, ["right", "coarse"], M=8, N=32).items()}
    assert found["right"] == "ok" and " values of q are off" in found["coarse"]


def test_gradients_beside_a_judge_are_judged_by_kbench() -> None:
    made = matrices("judges-gradients", lambda x: x * 2, check=lambda *tensors: None, gradients=("x",))
    made.provider("right")(lambda x: x * 2)
    made.provider("wrong-gradient")(lambda x: x * 2)
    made.backward("wrong-gradient")(lambda dy, x: dy * 3)
    for mode in ("backward", "full"):
        rows = measured(made, M=4, N=8, mode=mode)
        assert said(rows["right"]) == "ok" and rows["right"].max_ulp is not None
        assert said(rows["wrong-gradient"]).startswith("wrong gradient of x: every element wrong; first at [0, 0]")
