"""RMS normalisation in CUDA C++. The kernels are in `rmsnorm.cu` and `rmsnorm_backward.cu`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kbench.kernels.cuda_source import CudaSource, partial_sums
from kbench.operators.rmsnorm.operator import rmsnorm

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).with_name("rmsnorm.cu"))
BACKWARD_SOURCE = CudaSource(Path(__file__).with_name("rmsnorm_backward.cu"))


@rmsnorm.provider(
    "cuda",
    label="CUDA",
    devices=("cuda",),
    available=SOURCE.missing_tools,
    factory=True,
)
def cuda(case: Case, *, eps: float, packs: int | None = None, blocks: int | None = None) -> Callable[..., Tensor]:
    """Each row stays in the registers of a part of a warp, of a block, or of a cluster of blocks.

    `packs` and `blocks` are requests: this many accesses of 16 bytes per thread of each input, in this many blocks per row.
    """
    kernel = SOURCE.kernel("rmsnorm", eps=eps, packs=packs, blocks=blocks)

    def call(x: Tensor, weight: Tensor) -> Tensor:
        y = x.new_empty(x.shape)
        kernel((x, weight), (y,))
        return y

    return call


def cuda_saving(
    x: Tensor, weight: Tensor, *, eps: float, packs: int | None = None, blocks: int | None = None
) -> tuple[Tensor, Tensor]:
    """The output, and for the backward pass the statistics of each row, (M, 2) in float32: 0 and 1 / sqrt(mean(x^2) + eps)."""
    y, statistics = x.new_empty(x.shape), x.new_empty(x.shape[0], 2, dtype=torch.float32)
    _saving_kernel(eps, packs, blocks)((x, weight), (y, statistics))
    return y, statistics


@rmsnorm.backward("cuda", saves=cuda_saving)
def cuda_backward(dy: Tensor, x: Tensor, weight: Tensor, statistics: Tensor) -> tuple[Tensor, ...]:
    """The sums over the rows are deterministic: persistent blocks add up their rows, and a second launch adds up the blocks'
    sums.
    """
    dx = x.new_empty(x.shape)
    if dx.numel() == 0:
        return dx, weight.new_zeros(weight.shape)
    dweight = weight.new_empty(weight.shape)
    _backward_kernel()((dy, x, weight, statistics), (dx, dweight, partial_sums(x, 1)))
    return dx, dweight


@functools.cache
def _saving_kernel(eps: float, packs: int | None, blocks: int | None) -> Callable[..., None]:
    return SOURCE.kernel("rmsnorm_saving", eps=eps, packs=packs, blocks=blocks)


@functools.cache
def _backward_kernel() -> Callable[..., None]:
    return BACKWARD_SOURCE.kernel("rmsnorm_backward")
