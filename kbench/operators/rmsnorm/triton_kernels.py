# mypy: ignore-errors
"""RMS normalisation in Triton: the kernels, which `providers_triton.py` launches."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def forward_rows(y, rstd, x, weight, x_stride, N, eps, BLOCK: tl.constexpr):
    """One program per row, which stays in registers. Grid: M."""
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    v = tl.load(x + row * x_stride + columns, mask=columns < N, other=0.0).to(tl.float32)
    w = tl.load(weight + columns, mask=columns < N, other=0.0).to(tl.float32)
    factor = tl.rsqrt(tl.sum(v * v, 0) / N + eps)
    tl.store(rstd + row, factor)
    tl.store(y + row * N + columns, v * factor * w, mask=columns < N)


@triton.jit
def backward_rows(dx, sums, dy, x, weight, rstd, dy_stride, x_stride, M, N, BLOCK: tl.constexpr):
    """Each program takes every num_programs-th row, and stores its part of the weight's gradient in a row of `sums`."""
    columns = tl.arange(0, BLOCK)
    w = tl.load(weight + columns, mask=columns < N, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.program_id(0), M, tl.num_programs(0)):
        row = tl.cast(i, tl.int64)
        factor = tl.load(rstd + row)
        v = tl.load(x + row * x_stride + columns, mask=columns < N, other=0.0).to(tl.float32) * factor
        d = tl.load(dy + row * dy_stride + columns, mask=columns < N, other=0.0).to(tl.float32)
        total += d * v
        d *= w
        tl.store(dx + row * N + columns, (d - v * (tl.sum(d * v, 0) / N)) * factor, mask=columns < N)
    tl.store(sums + tl.program_id(0).to(tl.int64) * N + columns, total, mask=columns < N)
