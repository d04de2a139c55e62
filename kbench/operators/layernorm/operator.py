"""Layer normalisation of the rows of an (M, N) matrix: `y = (x - mean) / sqrt(var + eps) * weight + bias`."""

from __future__ import annotations

import math

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import SAME, Tensor
from kbench.results.case import Case


def _reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    rstd = 1 / ((x - mean).square().mean(-1, keepdim=True) + eps).sqrt()
    # not (x - mean) * rstd, which is exactly 0 for N = 1: kernels that multiply first are off by some units of x * rstd
    return (x * rstd - mean * rstd) * weight + bias


def _row_error(case: Case) -> float:
    """Units in the last place of float32. The sequential sum of N terms for the mean drifts by up to 2 * sqrt(N) units. The
    root halves the drift of the sum for the variance. Eight units are for the other steps."""
    return 8 + 2 * math.sqrt(case.N)


def _column_error(case: Case) -> float:
    """The gradients of weight and bias are sums over rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units."""
    return _row_error(case) + 2 * math.sqrt(case.M)


NORM_WEIGHT = Tensor("N", dtype="weight_dtype", tolerance=_column_error)

layernorm = Operator(
    "layernorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "weight": NORM_WEIGHT,
        "bias": NORM_WEIGHT,
    },
    outputs={"y": Tensor("M", "N")},
    scalars={"eps": 1e-5},
    choices={"weight_dtype": (SAME, "float32")},  # models often keep the weights of norms in float32
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight", "bias"),
    rows="M",
    tolerance=_row_error,
)
