"""Matrix products that state their floating-point operations: a right count, and counts that are no number of operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import kbench
from kbench import Tensor

MISCOUNTS: dict[str, Callable[[kbench.Case], Any]] = {
    "negative": lambda case: -2 * case.M * case.N * case.K,
    "raises": lambda case: case.size,
    "text": lambda case: "many",
    "nothing": lambda case: None,
    "nan": lambda case: math.nan,
    "infinite": lambda case: math.inf,
}


def product(name: str, flops: Callable[[kbench.Case], Any] | None) -> kbench.Operator:
    operator = kbench.Operator(
        f"product-{name}",
        axes=("M", "N", "K"),
        inputs={"a": Tensor("M", "K"), "b": Tensor("K", "N")},
        outputs={"c": Tensor("M", "N")},
        reference=lambda a, b: a @ b,
        flops=flops,
        tolerance=lambda case: 8 + 2 * math.sqrt(case.K),
    )

    @operator.provider("torch")
    def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b

    @operator.provider("fused")
    def sum_of_products(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.einsum("mk,kn->mn", a, b)

    return operator


kbench.Operator(
    "product-int8",
    axes=("M", "N", "K"),
    inputs={"a": Tensor("M", "K"), "b": Tensor("K", "N", dtype="int8", fill=kbench.integers(5))},
    outputs={"c": Tensor("M", "N")},
    reference=lambda a, b: a @ b.double(),
    flops=lambda case: 2 * case.M * case.N * case.K,
)
product("right", lambda case: 2 * case.M * case.N * case.K)
product("uncounted", None)
product("numpy", lambda case: np.prod([2, case.M, case.N, case.K]))
product("zero", lambda case: 0)
product("exaggerated", lambda case: 2 * 10**6 * case.M * case.N * case.K)
for name, count in MISCOUNTS.items():
    product(name, count)
