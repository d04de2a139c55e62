"""RMS normalisation of the rows of an (M, N) matrix: `y = x / sqrt(mean(x^2) + eps) * weight`, forward and backward."""

from __future__ import annotations

import math

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import SAME, Tensor
from kbench.results.case import Case


def _reference(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def _row_error(case: Case) -> float:
    """Units in the last place of float32. A sequential sum of N squares drifts by up to 2 * sqrt(N) units, and the root halves
    the drift. Eight more units are for the division by N, the sum with eps, the root and the products."""
    return 8 + math.sqrt(case.N)


# its gradient is a sum over the rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units
NORM_WEIGHT = Tensor("N", dtype="weight_dtype", tolerance=lambda case: _row_error(case) + 2 * math.sqrt(case.M))

rmsnorm = Operator(
    "rmsnorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "weight": NORM_WEIGHT,
    },
    outputs={"y": Tensor("M", "N")},
    scalars={"eps": 1e-6},
    choices={"weight_dtype": (SAME, "float32")},  # models often keep the weights of norms in float32
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight"),
    rows="M",
    tolerance=_row_error,
    scale=lambda case, y, x, weight: y,  # the squares are positive: nothing cancels in the forward pass
)
