"""Attention: softmax(q k^T / sqrt(D)) v for each head, causal or not, forward and backward. Query heads may share the heads of
the keys and values, as in grouped-query attention."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.results.case import BACKWARD, FORWARD, FULL, Case
from kbench.results.vocabulary import EdgeInput

SCORES = 2**26
"""The most scores that the reference holds at once, so that its float64 temporaries take some gigabytes at any length."""

HEADS = "heads/kv_heads*kv_heads"
"""The heads of the queries: a multiple of those of the keys. Other numbers are an error of the config."""


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, first: int, causal: bool) -> torch.Tensor:
    """Some queries (B, heads of keys, group, rows, D) of some heads of keys (B, heads of keys, S, D). The first of the queries
    has this position.

    The sum is divided last, as kernels do it: where one weight is almost 1, the gradient of its score is a difference of two
    nearly equal numbers, of which kernels compute one from the rounded output.
    """
    scores = q @ k[:, :, None].mT * k.shape[-1] ** -0.5
    if causal:
        rows, keys = (torch.arange(size, device=q.device) for size in scores.shape[-2:])
        scores = scores.masked_fill(keys > first + rows[:, None], -math.inf)
    weights = (scores - scores.detach().amax(-1, keepdim=True)).exp()
    output: torch.Tensor = weights @ v[:, :, None] / weights.sum(-1, keepdim=True)
    return output


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Some heads of the keys at a time, and where their scores are many, one, in blocks of queries. A backward pass computes
    the scores again."""
    if not q.numel():
        return q.clone()
    groups = q.unflatten(1, (k.shape[1], -1))
    B, _, group, S, _ = groups.shape
    heads = max(1, SCORES // max(1, B * group * S * S))
    step = max(1, SCORES // max(1, B * group * S * heads))
    outputs = []
    for queries, keys, values in zip(*(x.split(heads, 1) for x in (groups, k, v)), strict=True):
        blocks = [
            checkpoint(attend, x, keys, values, number * step, causal, use_reentrant=False, preserve_rng_state=False)
            for number, x in enumerate(queries.split(step, 3))
        ]
        outputs.append(torch.cat(blocks, 3))
    return torch.cat(outputs, 1).flatten(1, 2)


def pairs(case: Case) -> int:
    """The pairs of a query and a key that a head attends to."""
    S = int(case.S)
    return S * (S + 1) // 2 if case.causal else S * S


def _flops(case: Case) -> int:
    """Two products forward. The backward pass has five: it computes the scores again, as no kernel stores them."""
    products = {FORWARD: 2, BACKWARD: 5, FULL: 7}[case.mode]
    return products * 2 * int(case.B) * int(case.heads) * int(case.D) * pairs(case)


def _reshaped(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """An edge that changes all inputs alike."""
    return lambda case, *inputs: tuple(map(change, inputs))


attention = Operator(
    "attention",
    axes=("B", "heads", "kv_heads", "S", "D"),
    inputs={
        "q": Tensor("B", HEADS, "S", "D"),
        # torch adds up the gradients of heads that share a key in 16 bits: up to 3.3 units with four such heads
        "k": Tensor("B", "kv_heads", "S", "D", ulps=5),
        "v": Tensor("B", "kv_heads", "S", "D", ulps=5),
    },
    outputs={"o": Tensor("B", HEADS, "S", "D")},
    scalars={"causal": True},
    reference=reference,
    gradients=("q", "k", "v"),
    rows="B",
    flops=_flops,
    # Kernels round weights and gradients of scores to 16 bits before they multiply them. Of 10^5 elements, the worst
    # is off by 1.8 units, and in float32 by 29 (S up to 2048, D up to 128). A missing block of 64 in 16384 keys is 10 units.
    output_ulps=3,
    edges={
        EdgeInput.WIDE_RANGE: lambda case, q, k, v: (q * (30 if case.mode == FORWARD else 3), k, v),
        # a kernel that computes the scores again for the gradients rounds one of 300 by up to 128 units of its weight
        EdgeInput.LARGE_OFFSET: lambda case, q, k, v: (q, k + (100 if case.mode == FORWARD else 30), v),
        EdgeInput.ZEROS: lambda case, q, k, v: (q, torch.zeros_like(k), v),
        EdgeInput.STRIDED_ROWS: _reshaped(lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)),
        EdgeInput.TRANSPOSED: _reshaped(lambda x: x.mT.contiguous().mT),
        EdgeInput.ONE_ROW: _reshaped(lambda x: x[:, :, :1]),
        EdgeInput.NO_ROWS: _reshaped(lambda x: x[:0]),
    },
    model_axes={"heads": "heads", "kv_heads": "kv_heads", "S": "tokens", "D": "head_dim"},
)
