"""RMS normalisation in Triton. The kernels are in `kbench/kernels/norms/`, and the mathematics in `triton_mathematics.py`.
Importing this file does not need Triton."""

from __future__ import annotations

import torch

from kbench.kernels import whole_rows
from kbench.kernels.norms import launch
from kbench.operators.rmsnorm.operator import rmsnorm


@rmsnorm.provider("triton", label="Triton", requires="triton")
def triton(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return _normalised(x, weight, (), eps)


def triton_saving(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the factor of each row for the backward pass."""
    factors = x.new_empty(x.shape[0], dtype=torch.float32)
    return _normalised(x, weight, (factors,), eps), factors


def _normalised(x: torch.Tensor, weight: torch.Tensor, saved: launch.Tensors, eps: float) -> torch.Tensor:
    from kbench.operators.rmsnorm.triton_mathematics import RMSNORM

    y = x.new_empty(x.shape)
    launch.normalise(RMSNORM, (whole_rows.dense(x),), (weight.contiguous(),), (y,), saved, eps)
    return y


@rmsnorm.backward("triton", saves=triton_saving)
def triton_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, factors: torch.Tensor
) -> list[torch.Tensor]:
    from kbench.operators.rmsnorm.triton_mathematics import RMSNORM

    inputs = (whole_rows.dense(dy), whole_rows.dense(x))
    return launch.gradients(RMSNORM, inputs, (factors,), weight.contiguous())
