"""The fused loss: its reference in parts, and faults that its tolerance finds."""

from __future__ import annotations

import pytest
import torch
from judged_outputs import judged, random_inputs

from kbench.contract.registry import operator
from kbench.measure.correctness.check import accuracy
from kbench.operators import linear_cross_entropy as definition

SIZES = {"T": 40, "H": 64, "V": 900}


def test_the_reference_in_parts_is_the_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = operator("linear_cross_entropy")
    case = losses.case("float32", **SIZES, mode="backward")
    hidden, weight, labels, _ = random_inputs(case)
    inputs = [hidden.double().requires_grad_(), weight.double().requires_grad_()]
    results = []
    for logits in (definition.LOGITS, 7 * 900):
        monkeypatch.setattr(definition, "LOGITS", logits)
        loss = losses.reference(*inputs, labels)
        assert isinstance(loss, torch.Tensor)
        results.append([loss, *torch.autograd.grad(loss, inputs)])
    torch.testing.assert_close(results[0], results[1])


def test_a_part_of_the_vocabulary_or_of_the_tokens_that_is_left_out_is_wrong() -> None:
    losses = operator("linear_cross_entropy")
    case = losses.case("bfloat16", **SIZES, mode="full")
    hidden, weight, labels, d_loss = inputs = random_inputs(case)
    loss, (d_hidden, d_weight) = definition.torch_chunks_full(d_loss, *inputs[:3], chunks=5)
    assert accuracy(losses, case, inputs, loss, d_hidden, d_weight).wrong is None
    short = d_weight.clone()
    short[-64:] = 0
    assert "weight" in str(accuracy(losses, case, inputs, loss, d_hidden, short).wrong)
    last, _ = definition.torch_chunks_full(d_loss, hidden[:-8], weight, labels[:-8])
    assert "loss" in str(accuracy(losses, case, inputs, last, d_hidden, d_weight).wrong)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("provider", ["torch-chunks", "triton"])
def test_the_number_of_chunks_does_not_matter(provider: str) -> None:
    """One chunk, a last one that is shorter, and more chunks than tokens; the mode full has the loss, too."""
    case = operator("linear_cross_entropy").case("bfloat16", T=20, H=16, V=300, mode="full")
    for chunks in (1, 3, 50):
        assert judged(case, provider, chunks=chunks) is None
