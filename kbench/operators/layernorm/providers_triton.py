"""Layer normalisation in Triton. The kernels are in `kbench/kernels/norms/`."""

from __future__ import annotations

import torch
from torch import Tensor

from kbench.kernels.norms.launch import gradients, normalise
from kbench.operators.layernorm.operator import layernorm


@layernorm.provider("triton", label="Triton", requires="triton")
def triton(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> Tensor:
    return normalise(x, weight, eps, bias=bias)


def triton_saving(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    """The output, and the factors and the means of the rows for the backward pass."""
    statistics = x.new_empty(2, x.shape[0], dtype=torch.float32)
    return normalise(x, weight, eps, bias=bias, statistics=statistics), statistics


@layernorm.backward("triton", saves=triton_saving)
def triton_backward(dy: Tensor, x: Tensor, weight: Tensor, bias: Tensor, statistics: Tensor) -> list[Tensor]:
    return gradients(dy, x, statistics, weight, layernorm=True)
