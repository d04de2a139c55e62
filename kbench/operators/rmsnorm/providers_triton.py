"""RMS normalisation in Triton. The kernels are in `kbench/kernels/norms/`."""

from __future__ import annotations

from torch import Tensor

from kbench.kernels.norms.launch import gradients, normalise
from kbench.kernels.whole_rows import new_rows
from kbench.operators.rmsnorm.operator import rmsnorm


@rmsnorm.provider("triton", label="Triton", requires="triton")
def triton(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    return normalise(x, weight, eps)


def triton_saving(x: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    """The output, and the factor of each row for the backward pass."""
    factors = new_rows(x, x.shape[0])
    return normalise(x, weight, eps, statistics=factors), factors


@rmsnorm.backward("triton", saves=triton_saving)
def triton_backward(dy: Tensor, x: Tensor, weight: Tensor, factors: Tensor) -> list[Tensor]:
    return gradients(dy, x, factors, weight, layernorm=False)
