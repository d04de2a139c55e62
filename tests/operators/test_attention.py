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


@pytest.mark.parametrize("causal", [True, False])
def test_the_reference_in_blocks_of_queries_is_the_whole_one(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = operator("attention").case("float32", **SIZES, causal=causal, mode="backward")
    inputs = [x.double().requires_grad_() for x in random_inputs(case)]
    results = []
    for scores in (attention_operator.SCORES, 2 * 70 * 16):
        monkeypatch.setattr(attention_operator, "SCORES", scores)
        o = operator("attention").reference(*inputs[:3], causal=causal)
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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_faults_are_beyond_the_tolerance(dtype: str) -> None:
    attention = operator("attention")
    case = attention.case(dtype, **SIZES | {"S": 256, "heads": 2})
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


def of_sequences(q: Tensor, k: Tensor, v: Tensor, ends: Tensor) -> Tensor:
    function: Callable[..., Tensor] = operator("attention_varlen").providers["torch-native"].function
    return function(q, k, v, ends, causal=True)


FAULTS_OF_SEQUENCES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "one sequence": lambda q, k, v, ends: of_sequences(q, k, v, ends[[0, -1]]),
    "other lengths": lambda q, k, v, ends: of_sequences(q, k, v, torch.cat([ends[:1], ends[1:-1] + 1, ends[-1:]])),
    "drops the last block": lambda q, k, v, ends: torch.cat([of_sequences(q, k, v, ends)[:-64], q[-64:] * 0]),
}


@pytest.mark.parametrize("fault", FAULTS_OF_SEQUENCES)
def test_a_fault_in_the_sequences_is_beyond_the_tolerance(fault: str) -> None:
    varlen = operator("attention_varlen")
    case = varlen.case("bfloat16", **RAGGED, lengths="zipf")
    inputs = random_inputs(case)
    assert accuracy(varlen, case, inputs, of_sequences(*inputs)).wrong is None
    assert accuracy(varlen, case, inputs, FAULTS_OF_SEQUENCES[fault](*inputs)).wrong


@pytest.mark.slow
@pytest.mark.skipif(DEVICE.type != "cpu", reason="a device decides by itself")
@pytest.mark.parametrize("mode", ["forward", "backward"])
def test_the_kernels_with_pointers_are_right(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on devices without a tensor memory accelerator. Strides and sizes are any."""
    providers_triton = pytest.importorskip("kbench.operators.attention.providers_triton")
    monkeypatch.setattr(providers_triton, "has_descriptors", lambda device: False)
    for causal in (True, False):
        case = operator("attention").case("bfloat16", **SIZES, causal=causal, mode=mode)
        spread = [torch.nn.functional.pad(x, (1, 2))[..., 1:-2] for x in random_inputs(case)]
        assert judged(case, "triton", spread) is None
