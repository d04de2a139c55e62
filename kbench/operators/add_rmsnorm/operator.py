"""Residual sum and RMS normalisation, as between the layers of a language model: `h = x + residual`, and
`y = h / sqrt(mean(h^2) + eps) * weight` for each row of (M, N) matrices."""

from __future__ import annotations

import math

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
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
    forward, backward = 4 * case.M * case.N + case.N, 4 * case.M * case.N + 2 * case.N
    return int({FORWARD: forward, BACKWARD: backward}.get(case.mode, forward + backward) * case.itemsize)


add_rmsnorm = Operator(
    "add_rmsnorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "residual": Tensor("M", "N"),
        # its gradient is a sum over the rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units
        "weight": Tensor("N", tolerance=lambda case: _row_error(case) + 2 * math.sqrt(case.M)),
    },
    outputs={"y": Tensor("M", "N"), "h": Tensor("M", "N")},
    scalars={"eps": 1e-6},
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight"),  # the gradient of residual is that of x: kernels write it once
    rows="M",
    tolerance=_row_error,
    bytes=_bytes,
)
