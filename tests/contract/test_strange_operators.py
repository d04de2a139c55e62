"""Operators unlike kbench's own, declared as the documentation says: right providers pass and subtly wrong ones do not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
import torch
import torch.nn.functional as F
from measure.in_process import checked_edges, measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.results.case import Case


def _in_steps(scores: Tensor) -> Tensor:
    powers = (scores - scores.amax(-1, keepdim=True).detach()).exp()
    return powers / powers.sum(-1, keepdim=True)


def _grouped(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, in_steps: bool) -> Tensor:
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]))
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    return (_in_steps(scores) if in_steps else scores.softmax(-1)) @ v


attention = Operator(
    "strange-attention",
    axes=("B", "H", "G", "S", "D"),
    inputs={"q": Declared("B", "H*G", "S", "D"), "k": Declared("B", "H", "S", "D"), "v": Declared("B", "H", "S", "D")},
    outputs={"o": Declared("B", "H*G", "S", "D")},
    scalars={"causal": False, "in_steps": False},
    reference=_grouped,
    gradients=("q", "k", "v"),
)


@attention.provider("sdpa")
def sdpa(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, **reference: bool) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


@attention.provider("heads-in-another-order")
def heads_in_another_order(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, **reference: bool) -> Tensor:
    k, v = (x.repeat(1, q.shape[1] // x.shape[1], 1, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


@attention.provider("detached-keys")
def detached_keys(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, **reference: bool) -> Tensor:
    return sdpa(q, k.detach() if causal else k, v, causal=causal)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("in_steps", [False, True])
def test_attention_with_gradients_that_cancel(causal: bool, in_steps: bool) -> None:
    """The gradient of the first row of causal attention is exactly 0 in float64, and about 1e-7 in any kernel."""
    sizes: dict[str, int | bool | str] = {"B": 1, "H": 2, "G": 2, "S": 16, "D": 8, "mode": "full"}
    sizes |= {"causal": causal, "in_steps": in_steps}
    rows = measured(attention, **sizes)
    assert said(rows["sdpa"]) == "ok"
    assert ", all in [:, 1 to 2, :, :]; first at [0, 1, 0, 0]" in said(rows["heads-in-another-order"])
    assert said(rows["detached-keys"]).startswith("wrong gradient of k: every element" if causal else "ok")
    assert checked_edges(attention, "sdpa", **sizes)["S=1"] == "checked"


search = Operator(
    "strange-search",
    axes=("S", "N"),
    inputs={"bounds": Declared("S", fill=lambda case, draw: draw.normal(case.S).sort()[0]), "x": Declared("N")},
    outputs={"at": Declared("N", dtype="int64")},
    reference=lambda bounds, x: torch.searchsorted(bounds, x),
    rows="N",
)
search.provider("torch")(lambda bounds, x: torch.searchsorted(bounds, x))
search.provider("linear")(lambda bounds, x: (~(bounds >= x[:, None])).sum(-1))  # right also for NaN in x


def test_no_edge_input_breaks_what_a_function_has_sorted() -> None:
    assert set(checked_edges(search, "linear", S=9, N=50).values()) == {"checked"}
    assert said(measured(search, ["linear"], S=9, N=50)["linear"]) == "ok"


def _judge_top(
    case: Case, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], right: Mapping[str, Tensor]
) -> str | None:
    at = outputs["at"]
    if not torch.equal(inputs["x"].gather(1, at).double().nan_to_num(9e9), right["values"].nan_to_num(9e9)):
        return "the largest values are not at these indices"
    return None if (at.sort(-1)[0].diff() > 0).all() else "an index occurs twice"


top = Operator(
    "strange-top",
    axes=("M", "N", "k"),
    inputs={"x": Declared("M", "N")},
    outputs={"values": Declared("M", "k"), "at": Declared("M", "k", dtype="int64")},
    reference=lambda x, *, k: x.topk(k),
    check={"at": _judge_top},
    rows="M",
)
top.provider("sort", factory=True)(lambda case: lambda x: [y[:, : case.k] for y in x.sort(-1, descending=True)])
top.provider("first-value-twice", factory=True)(
    lambda case: lambda x: (x.topk(case.k).values[:, [0, *range(case.k - 1)]], x.topk(case.k).indices)
)
top.provider("first-index-twice", factory=True)(
    lambda case: lambda x: (x.topk(case.k).values, x.topk(case.k).indices[:, [0, *range(case.k - 1)]])
)


def test_top_k_accepts_any_order_of_ties_and_its_values_are_judged_beside_it() -> None:
    rows = measured(top, M=20, N=100, k=4, dtype="bfloat16")
    assert said(rows["sort"]) == "ok" and rows["sort"].max_ulp == 0
    assert said(rows["first-value-twice"]).startswith("wrong values: ")
    assert said(rows["first-index-twice"]) == "wrong the largest values are not at these indices"
    assert set(checked_edges(top, "sort", M=20, N=100, k=4, dtype="bfloat16").values()) == {"checked"}
