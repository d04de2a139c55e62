"""Elementwise GELU of an (M, N) matrix: the tanh form by default, the exact (erf) form with `approximate: none`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.results.case import Case

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


def _reference(x: torch.Tensor, *, approximate: str) -> torch.Tensor:
    if approximate == "none":
        return 0.5 * x * (x / -math.sqrt(2)).erfc()
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    # x * sigmoid(2u) is the same function, without the cancellation in 1 + tanh(u) for negative x
    return x * (2 * u).sigmoid()


def _strided(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
    wide = x.new_zeros(x.shape[0], x.shape[1] + 3)
    wide[:, : x.shape[1]] = x
    return (wide[:, : x.shape[1]],)


def _first_element(value: float) -> Callable[[Case, torch.Tensor], tuple[torch.Tensor]]:
    def put(case: Case, x: torch.Tensor) -> tuple[torch.Tensor]:
        y = x.clone()
        y[:1, :1] = value  # no element if the matrix is empty
        return (y,)

    return put


gelu = Operator(
    "gelu",
    axes=("M", "N"),
    choices={"approximate": ("tanh", "none")},
    inputs={"x": Tensor("M", "N")},
    outputs={"y": Tensor("M", "N")},
    reference=_reference,
    # 1 + tanh(u) is accurate to about one float32 unit at 1, so the error of x/2 (1 + tanh u) counts in units at x/2
    tolerance=lambda case: 16,
    scale=lambda case, reference, x: x.abs() / 2,
    output_ulps=1,
    rows="M",
    model_axes=[
        {"M": "tokens", "N": "intermediate"},
        {"M": "tokens*active_experts", "N": "expert_intermediate"},  # all experts in one call
    ],
    edges={
        "large positive": lambda case, x: (x.abs() * 1e3,),
        "large negative": lambda case, x: (x.abs() * -1e3,),
        "tiny": lambda case, x: (x * 1e-3,),
        "one +inf": _first_element(float("inf")),
        "one NaN": _first_element(float("nan")),
        "strided rows": _strided,
        "odd columns": lambda case, x: (x[:, : x.shape[1] - 1 + x.shape[1] % 2].contiguous(),),
        "one row": lambda case, x: (x[:1],),
        "one column": lambda case, x: (x[:, :1].contiguous(),),
        "transposed": lambda case, x: (x.t().contiguous().t(),),
        "no rows": lambda case, x: (x[:0],),
        "no columns": lambda case, x: (x[:, :0],),
    },
)
