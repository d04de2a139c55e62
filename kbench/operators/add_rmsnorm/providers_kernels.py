"""Residual sum and RMS normalisation with kbench's own kernels: in CUDA C++ (`add_rmsnorm.cu`), and in Triton
(`kbench/kernels/norms/`). In place, the sum overwrites `residual`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from kbench.kernels.cuda_source import CudaSource, rowwise
from kbench.kernels.matrices import dense_like, new_rows, require_dense
from kbench.kernels.norms.launch import gradients, normalise
from kbench.operators.add_rmsnorm.operator import add_rmsnorm
from kbench.results.case import Case

Two = tuple[Tensor, Tensor]
SOURCE = CudaSource(Path(__file__).with_name("add_rmsnorm.cu"))


@add_rmsnorm.provider("cuda", devices=("cuda",), available=SOURCE.missing_tools, factory=True)
def cuda(case: Case, *, eps: float) -> Callable[..., tuple[Tensor, Tensor]]:
    """Each row stays in the registers of a part of a warp, of a block, or of a cluster of blocks."""
    return rowwise(SOURCE.kernel("add_rmsnorm", eps=eps), outputs=2)


@add_rmsnorm.provider(
    "cuda-in-place",
    devices=("cuda",),
    available=SOURCE.missing_tools,
    factory=True,
    mutates={"residual": "h"},
)
def cuda_in_place(case: Case, *, eps: float) -> Callable[..., Tensor]:
    """The kernel of `cuda`. A thread writes only elements that it has read before, and that no other thread reads."""
    kernel = SOURCE.kernel("add_rmsnorm", eps=eps)

    def call(x: Tensor, residual: Tensor, weight: Tensor) -> Tensor:
        y = dense_like(x)
        kernel((x, residual, weight), (y, require_dense(residual)))
        return y

    return call


@add_rmsnorm.provider("triton", requires="triton")
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
