"""Residual sum and RMS normalisation in Triton. Importing it does not need Triton."""

from __future__ import annotations

from pathlib import Path

import torch

from kbench.kernels import whole_rows
from kbench.operators.add_rmsnorm.operator import add_rmsnorm

Two = tuple[torch.Tensor, torch.Tensor]

SOURCES = (Path(__file__).with_name("triton_kernels.py"), *whole_rows.SOURCES)


@add_rmsnorm.provider("triton", label="Triton (row)", requires="triton", sources=SOURCES, supports=whole_rows.long_rows)
def triton_row(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    h = x.new_empty(x.shape)
    return _launch(h, x, residual, weight, eps), h


@add_rmsnorm.provider(
    "triton-inplace", requires="triton", sources=SOURCES, supports=whole_rows.long_rows, mutates={"residual": "h"}
)
def triton_inplace(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return _launch(whole_rows.known_dense(residual), x, residual, weight, eps)


def _launch(h: torch.Tensor, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    from kbench.operators.add_rmsnorm import triton_kernels

    (M, N), x, residual = x.shape, whole_rows.dense(x), whole_rows.dense(residual)
    y = x.new_empty(M, N)
    if y.numel():
        tensors, strides = (y, h, x, residual, weight.contiguous()), (h.stride(0), x.stride(0), residual.stride(0))
        triton_kernels.add_rmsnorm_rows[(M,)](*tensors, *strides, N, eps, **whole_rows.launch(N))
    return y
