"""Residual sum and RMS normalisation in Triton. The kernels are in `kbench/kernels/norms/`, and the mathematics in
`triton_mathematics.py`. Importing this file does not need Triton."""

from __future__ import annotations

import torch

from kbench.kernels import whole_rows
from kbench.kernels.norms import launch
from kbench.operators.add_rmsnorm.operator import add_rmsnorm

Two = tuple[torch.Tensor, torch.Tensor]


@add_rmsnorm.provider("triton", label="Triton", requires="triton")
def triton(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    h = x.new_empty(x.shape)
    return _normalised(h, x, residual, weight, (), eps), h


@add_rmsnorm.provider("triton-in-place", requires="triton", mutates={"residual": "h"})
def triton_in_place(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return _normalised(whole_rows.known_dense(residual), x, residual, weight, (), eps)


def triton_saving(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> tuple[Two, Two]:
    """The outputs; and for the backward pass h and the factor of each row."""
    h, factors = x.new_empty(x.shape), x.new_empty(x.shape[0], dtype=torch.float32)
    return (_normalised(h, x, residual, weight, (factors,), eps), h), (h, factors)


def _normalised(
    h: torch.Tensor,
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    saved: launch.Tensors,
    eps: float,
) -> torch.Tensor:
    from kbench.operators.add_rmsnorm.triton_mathematics import ADD_RMSNORM

    y = x.new_empty(x.shape)
    inputs = (whole_rows.dense(x), whole_rows.dense(residual))
    launch.normalise(ADD_RMSNORM, inputs, (weight.contiguous(),), (y, h), saved, eps)
    return y


@add_rmsnorm.backward("triton", saves=triton_saving)
def triton_backward(
    dy: torch.Tensor, dh: torch.Tensor, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, saved: Two
) -> list[torch.Tensor]:
    from kbench.operators.add_rmsnorm.triton_mathematics import ADD_RMSNORM

    h, factors = saved
    inputs = (whole_rows.dense(dy), h, whole_rows.dense(dh))
    return launch.gradients(ADD_RMSNORM, inputs, (factors,), weight.contiguous())
