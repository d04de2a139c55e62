"""Operators unlike kbench's own, declared as the documentation says: right providers pass and subtly wrong ones do not."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from measure.in_process import checked_edges, measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.results.case import Case

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
