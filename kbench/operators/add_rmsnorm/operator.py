"""Residual sum and RMS normalisation, as between the layers of a language model: `h = x + residual`, and
`y = h / sqrt(mean(h^2) + eps) * weight` for each row of (M, N) matrices."""

from __future__ import annotations

import math

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import SAME, Tensor
from kbench.results.case import BACKWARD, FORWARD, Case


def _reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    h = x + residual
    return h / (h.square().mean(-1, keepdim=True) + eps).sqrt() * weight, h


def _row_error(case: Case) -> float:
    """Units in the last place of float32. A sequential sum of N squares drifts by up to 2 * sqrt(N) units, and the root halves
    the drift. Eight more units are for the other steps."""
    return 8 + math.sqrt(case.N)


def _bytes(case: Case) -> int:
    """Forward: x and residual in, y and h out. Backward: the gradients of y and h, and h, in; the gradient of x out."""
    matrices, weight = 4 * case.M * case.N * case.itemsize, NORM_WEIGHT.bytes_in(case)
    forward, backward = matrices + weight, matrices + 2 * weight
    return int({FORWARD: forward, BACKWARD: backward}.get(case.mode, forward + backward))


def _weight_error(case: Case) -> float:
    """The gradient of the weight is a sum over the rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units.

    Its terms contain h, which kernels keep in the dtype of the case. If the gradient is in float32 and h is not, two units of
    h's dtype are allowed, as everywhere for a rounded intermediate result.
    """
    of_h = {"float16": 2**13, "bfloat16": 2**16}  # units of float32 in a unit of this dtype
    rounded = 2 * of_h.get(case.dtype, 0) if NORM_WEIGHT.dtype_in(case) != case.dtype else 0
    return _row_error(case) + 2 * math.sqrt(case.M) + rounded


NORM_WEIGHT = Tensor("N", dtype="weight_dtype", tolerance=_weight_error)

add_rmsnorm = Operator(
    "add_rmsnorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "residual": Tensor("M", "N"),
        "weight": NORM_WEIGHT,
    },
    outputs={"y": Tensor("M", "N"), "h": Tensor("M", "N")},
    scalars={"eps": 1e-6},
    choices={"weight_dtype": (SAME, "float32")},  # models often keep the weights of norms in float32
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight"),  # the gradient of residual is that of x: kernels write it once
    rows="M",
    tolerance=_row_error,
    bytes=_bytes,
)
