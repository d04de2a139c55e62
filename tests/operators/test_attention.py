"""Attention: what it counts, how its reference is sliced, faults that its tolerance finds, and the kernels with pointers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from judged_outputs import DEVICE, judged, random_inputs
from torch import Tensor

from kbench.contract.registry import operator
from kbench.measure.correctness.check import accuracy
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import Device
from kbench.operators.attention import operator as attention_operator

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZES = {"B": 1, "heads": 4, "kv_heads": 2, "S": 70, "D": 40}


def test_a_causal_case_counts_the_pairs_below_the_diagonal() -> None:
    flops = operator("attention").flops
    assert flops
    counts: dict[tuple[bool, str], int] = {}
    for causal in (True, False):
        for mode in ("forward", "backward", "full"):
            counts[causal, mode] = flops(operator("attention").case(**SIZES, causal=causal, mode=mode))  # type: ignore[call-arg]
    assert counts[False, "forward"] == 2 * 2 * 4 * 40 * 70 * 70
    assert counts[True, "forward"] / counts[False, "forward"] == 71 / 140
    assert counts[True, "backward"] == 2.5 * counts[True, "forward"] == counts[True, "full"] - counts[True, "forward"]


def test_the_reference_in_blocks_of_queries_is_the_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    case = operator("attention").case("float32", **SIZES, causal=True, mode="backward")
    inputs = [x.double().requires_grad_() for x in random_inputs(case)]
    results = []
    for scores in (attention_operator.SCORES, 2 * 70 * 16):
        monkeypatch.setattr(attention_operator, "SCORES", scores)
        o = operator("attention").reference(*inputs[:3], causal=True)
        assert isinstance(o, Tensor)
        results.append([o, *torch.autograd.grad(o, inputs[:3], inputs[3])])
    torch.testing.assert_close(results[0], results[1])


FAULTS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "ignores the mask": lambda q, k, v: attended(q, k, v, causal=False),
    "drops the last block of keys": lambda q, k, v: attended(q, k[:, :, :-64], v[:, :, :-64]),
    "shares other heads": lambda q, k, v: attended(q, k.flip(1), v.flip(1)),
    "does not scale": lambda q, k, v: attended(q * q.shape[-1] ** 0.5, k, v),
}


def attended(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> Tensor:
    missing = q.shape[2] - k.shape[2]
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril() if causal else None
    assert not missing or causal
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def test_faults_are_beyond_the_tolerance() -> None:
    attention = operator("attention")
    case = attention.case("bfloat16", **SIZES | {"S": 256, "heads": 2})
    inputs = [x.cpu() for x in random_inputs(case)]
    assert accuracy(attention, case, inputs, attended(*inputs)).wrong is None
    not_noticed = [
        name for name, fault in FAULTS.items() if not accuracy(attention, case, inputs, fault(*inputs)).wrong
    ]
    assert not_noticed == []


RAGGED = {"B": 4, "heads": 2, "kv_heads": 2, "T": 500, "D": 32}


@pytest.mark.parametrize(("lengths", "longest"), [("equal", 125), ("uniform", 219), ("zipf", 240)])
def test_sequences_are_drawn_in_another_order_and_count_the_same_work(lengths: str, longest: int) -> None:
    varlen = operator("attention_varlen")
    definition = Definition(varlen, varlen.case("bfloat16", **RAGGED, lengths=lengths))
    drawn = [Inputs(definition, Device(), 0).draw(name)[3] for name in ("timed", "second", "last", "random")]
    assert {int(ends[-1]) for ends in drawn} == {500} and {int(ends.diff().max()) for ends in drawn} == {longest}
    assert len({definition.work([*[torch.empty(0)] * 3, ends]).flops for ends in drawn}) == 1
    assert (len({tuple(ends.tolist()) for ends in drawn}) > 1) == (lengths != "equal")


@pytest.mark.slow
@pytest.mark.skipif(DEVICE.type != "cpu", reason="a device decides by itself")
def test_the_kernels_with_pointers_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on devices without a tensor memory accelerator. Strides and sizes are any."""
    providers_triton = pytest.importorskip("kbench.operators.attention.providers_triton")
    monkeypatch.setattr(providers_triton, "has_descriptors", lambda device: False)
    for causal in (True, False):
        case = operator("attention").case("bfloat16", **SIZES, causal=causal, mode="full")
        spread = [torch.nn.functional.pad(x, (1, 2))[..., 1:-2] for x in random_inputs(case)]
        assert judged(case, "triton", spread) is None
