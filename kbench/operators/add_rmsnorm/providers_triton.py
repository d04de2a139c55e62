"""Residual sum and RMS normalisation in Triton. The kernels are in `kbench/kernels/norms/`."""

from __future__ import annotations

from torch import Tensor

from kbench.kernels.norms.launch import gradients, normalise
from kbench.kernels.whole_rows import dense_like, new_rows, require_dense
from kbench.operators.add_rmsnorm.operator import add_rmsnorm

Two = tuple[Tensor, Tensor]


@add_rmsnorm.provider("triton", label="Triton", requires="triton")
def triton(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> Two:
    h = dense_like(x)
    return normalise(x, weight, eps, residual=residual, h=h), h


@add_rmsnorm.provider("triton-in-place", requires="triton", mutates={"residual": "h"})
def triton_in_place(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    return normalise(x, weight, eps, residual=residual, h=require_dense(residual))


def triton_saving(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Two, Two]:
    """The outputs; and for the backward pass h and the factor of each row."""
    h, factors = dense_like(x), new_rows(x, x.shape[0])
    return (normalise(x, weight, eps, residual=residual, h=h, statistics=factors), h), (h, factors)


@add_rmsnorm.backward("triton", saves=triton_saving)
def triton_backward(dy: Tensor, dh: Tensor, x: Tensor, residual: Tensor, weight: Tensor, saved: Two) -> list[Tensor]:
    h, factors = saved
    return gradients(dy, h, factors, weight, layernorm=False, dh=dh)
