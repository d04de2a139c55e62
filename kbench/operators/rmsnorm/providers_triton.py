"""RMS normalisation in Triton. Importing it does not need Triton."""

from __future__ import annotations

from pathlib import Path

import torch

from kbench.kernels import whole_rows
from kbench.operators.rmsnorm.operator import rmsnorm

SOURCES = (Path(__file__).with_name("triton_kernels.py"), *whole_rows.SOURCES)


@rmsnorm.provider("triton", label="Triton (row)", requires="triton", sources=SOURCES, supports=whole_rows.long_rows)
def triton_row(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return triton_saving(x, weight, eps=eps)[0]


def triton_saving(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the factor of each row for the backward pass."""
    from kbench.operators.rmsnorm import triton_kernels

    (M, N), x = x.shape, whole_rows.dense(x)
    y, rstd = x.new_empty(M, N), x.new_empty(M, dtype=torch.float32)
    if y.numel():
        triton_kernels.forward_rows[(M,)](y, rstd, x, weight.contiguous(), x.stride(0), N, eps, **whole_rows.launch(N))
    return y, rstd


@rmsnorm.backward("triton", saves=triton_saving)
def triton_backward(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor) -> list[torch.Tensor]:
    """Sums the gradient of the weight in two stages, always in the same order, so that it is deterministic."""
    from kbench.operators.rmsnorm import triton_kernels

    (M, N), x, dy = x.shape, whole_rows.dense(x), whole_rows.dense(dy)
    dx, sums = x.new_empty(M, N), x.new_empty(whole_rows.resident_programs(x), N, dtype=torch.float32)
    if dx.numel():
        tensors, strides = (dx, sums, dy, x, weight.contiguous(), rstd), (dy.stride(0), x.stride(0))
        triton_kernels.backward_rows[(len(sums),)](*tensors, *strides, M, N, **whole_rows.launch(N))
    return [dx, sums.sum(0).to(weight.dtype)]
