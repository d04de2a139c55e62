"""Layer normalisation in Triton. The kernels are in `kbench/kernels/norms/`, and the mathematics in `triton_mathematics.py`.
Importing this file does not need Triton."""

from __future__ import annotations

import torch

from kbench.kernels import whole_rows
from kbench.kernels.norms import launch
from kbench.operators.layernorm.operator import layernorm


@layernorm.provider("triton", label="Triton", requires="triton")
def triton(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    return _normalised(x, weight, bias, (), eps)


def triton_saving(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float
) -> tuple[torch.Tensor, launch.Tensors]:
    """The output, and the mean and the factor of each row for the backward pass."""
    saved = x.new_empty((2, x.shape[0]), dtype=torch.float32).unbind()
    return _normalised(x, weight, bias, saved, eps), saved


def _normalised(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, saved: launch.Tensors, eps: float
) -> torch.Tensor:
    from kbench.operators.layernorm.triton_mathematics import LAYERNORM

    y = x.new_empty(x.shape)
    weights = (weight.contiguous(), bias.contiguous())
    launch.normalise(LAYERNORM, (whole_rows.dense(x),), weights, (y,), saved, eps)
    return y


@layernorm.backward("triton", saves=triton_saving)
def triton_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, statistics: launch.Tensors
) -> list[torch.Tensor]:
    from kbench.operators.layernorm.triton_mathematics import LAYERNORM

    inputs = (whole_rows.dense(dy), whole_rows.dense(x))
    return launch.gradients(LAYERNORM, inputs, statistics, weight.contiguous())
