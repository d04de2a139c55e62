"""Layer normalisation with kbench's own kernels: in CUDA C++ (`layernorm.cu`), and in Triton (`kbench/kernels/norms/`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from kbench.kernels.cuda_source import CudaSource, rowwise
from kbench.kernels.matrices import new_rows
from kbench.kernels.norms.launch import gradients, normalise
from kbench.operators.layernorm.operator import layernorm
from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).with_name("layernorm.cu"))


@layernorm.provider("cuda", devices=("cuda",), available=SOURCE.missing_tools, factory=True)
def cuda(case: Case, *, eps: float) -> Callable[..., Tensor]:
    """Each row stays in the registers of a part of a warp, of a block, or of a cluster of blocks."""
    return rowwise(SOURCE.kernel("layernorm", eps=eps))


@layernorm.provider("triton", requires="triton")
def triton(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> Tensor:
    return normalise(x, weight, eps, bias=bias)


def triton_saving(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    """The output, and the factors and the means of the rows for the backward pass."""
    statistics = new_rows(x, 2, x.shape[0])
    return normalise(x, weight, eps, bias=bias, statistics=statistics), statistics


@layernorm.backward("triton", saves=triton_saving)
def triton_backward(dy: Tensor, x: Tensor, weight: Tensor, bias: Tensor, statistics: Tensor) -> list[Tensor]:
    return gradients(dy, x, statistics, weight, layernorm=True)
