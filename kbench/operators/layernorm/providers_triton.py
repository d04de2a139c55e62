"""Layer normalisation in Triton. The kernels are in `kbench/kernels/norms/`."""

from __future__ import annotations

from torch import Tensor

from kbench.kernels.norms.launch import gradients, normalise
from kbench.kernels.whole_rows import new_rows
from kbench.operators.layernorm.operator import layernorm


@layernorm.provider("triton", label="Triton", requires="triton")
def triton(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> Tensor:
    return normalise(x, weight, eps, bias=bias)


def triton_saving(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    """The output, and the factors and the means of the rows for the backward pass."""
    statistics = new_rows(x, 2, x.shape[0])
    return normalise(x, weight, eps, bias=bias, statistics=statistics), statistics


@layernorm.backward("triton", saves=triton_saving)
def triton_backward(dy: Tensor, x: Tensor, weight: Tensor, bias: Tensor, statistics: Tensor) -> list[Tensor]:
    return gradients(dy, x, statistics, weight, layernorm=True)
