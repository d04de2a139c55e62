"""RMS normalisation with kbench's own kernels: in CUDA C++ (`rmsnorm.cu`), and in Triton (`kbench/kernels/norms/`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from kbench.kernels.cuda_source import CudaSource, rowwise
from kbench.kernels.matrices import new_rows
from kbench.kernels.norms.launch import gradients, normalise
from kbench.operators.rmsnorm.operator import rmsnorm
from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).with_name("rmsnorm.cu"))


@rmsnorm.provider("cuda", devices=("cuda",), available=SOURCE.missing_tools, factory=True)
def cuda(case: Case, *, eps: float) -> Callable[..., Tensor]:
    """Each row stays in the registers of a part of a warp, of a block, or of a cluster of blocks."""
    return rowwise(SOURCE.kernel("rmsnorm", eps=eps))


@rmsnorm.provider("triton", requires="triton")
def triton(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    return normalise(x, weight, eps)


def triton_saving(x: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    """The output, and the factor of each row for the backward pass."""
    factors = new_rows(x, x.shape[0])
    return normalise(x, weight, eps, statistics=factors), factors


@rmsnorm.backward("triton", saves=triton_saving)
def triton_backward(dy: Tensor, x: Tensor, weight: Tensor, factors: Tensor) -> list[Tensor]:
    return gradients(dy, x, factors, weight, layernorm=False)
