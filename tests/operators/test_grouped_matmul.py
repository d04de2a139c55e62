"""Products by expert: the routing is drawn, each draw is the same work, and another routing is wrong."""

from __future__ import annotations

import pytest
import torch
from judged_outputs import DEVICE, judged, random_inputs

from kbench.contract.registry import operator
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device
from kbench.operators.grouped_matmul.operator import loads

SIZES = {"T": 90, "E": 8, "K": 32, "N": 16}


@pytest.mark.parametrize(("routing", "used"), [("balanced", 8), ("zipf", 8), ("one-expert", 1)])
def test_draws_route_in_other_ways_and_are_the_same_work(routing: str, used: int) -> None:
    grouped = operator("grouped_matmul")
    definition = Definition(grouped, grouped.case("bfloat16", **SIZES, routing=routing))
    drawn = [Inputs(definition, Device(), 0).draw(name) for name in ("timed", "second", "last")]
    assert len({tuple(ends.tolist()) for _, _, ends in drawn}) > 1
    assert {int(ends[-1]) for _, _, ends in drawn} == {90} == {sum(loads(definition.case))}
    elements = 90 * (32 + 16) + used * 32 * 16
    assert {definition.work(inputs) for inputs in drawn} == {(elements * 2 + 8 * 4, 2 * 90 * 32 * 16)}


def test_zipf_gives_the_second_expert_half_of_the_first() -> None:
    case = operator("grouped_matmul").case(T=2500, E=4, K=1, N=1, routing="zipf")
    assert loads(case) == [1200, 600, 400, 300]


@pytest.mark.slow
@pytest.mark.skipif(DEVICE.type != "cpu", reason="a device decides by itself")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_kernels_with_pointers_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on devices without a tensor memory accelerator. Strides and sizes are any."""
    providers_triton = pytest.importorskip("kbench.operators.grouped_matmul.providers_triton")
    monkeypatch.setattr(providers_triton, "describable", lambda *tensors: False)
    for routing in ("balanced", "zipf", "one-expert"):
        case = operator("grouped_matmul").case("bfloat16", T=70, E=3, K=40, N=48, routing=routing, mode="full")
        x, w, ends, d_y = random_inputs(case)
        spread = [torch.nn.functional.pad(matrix, (1, 2))[..., 1:-2] for matrix in (x, w)]
        assert judged(case, "triton", [*spread, ends, d_y]) is None
