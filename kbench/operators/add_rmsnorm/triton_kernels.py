# mypy: ignore-errors
"""Residual sum and RMS normalisation in Triton: the kernels, which `providers_triton.py` launches."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def add_rmsnorm_rows(y, h, x, residual, weight, h_stride, x_stride, residual_stride, N, eps, BLOCK: tl.constexpr):
    """One program per row, which stays in registers. `h` may be `residual`. Grid: M."""
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = columns < N
    v = tl.load(x + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    v += tl.load(residual + row * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(h + row * h_stride + columns, v, mask=inside)
    tl.store(y + row * N + columns, v * tl.rsqrt(tl.sum(v * v, 0) / N + eps) * w, mask=inside)
