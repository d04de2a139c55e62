"""Residual sum and RMS normalisation in CUDA C++, out of place, and in place: the sum overwrites `residual`. The kernel is in
`add_rmsnorm.cu`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.kernels.cuda_source import CudaSource, rowwise
from kbench.kernels.whole_rows import dense_like, require_dense
from kbench.operators.add_rmsnorm.operator import add_rmsnorm

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).with_name("add_rmsnorm.cu"))


@add_rmsnorm.provider("cuda", label="CUDA", devices=("cuda",), available=SOURCE.missing_tools, factory=True)
def cuda(case: Case, *, eps: float) -> Callable[..., tuple[Tensor, Tensor]]:
    """Each row stays in the registers of a part of a warp, of a block, or of a cluster of blocks."""
    return rowwise(SOURCE.kernel("add_rmsnorm", eps=eps), outputs=2)


@add_rmsnorm.provider(
    "cuda-in-place",
    label="CUDA (in place)",
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
