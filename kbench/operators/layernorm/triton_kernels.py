# mypy: ignore-errors
"""Layer normalisation in Triton: the kernels, which `providers_triton.py` launches."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def layernorm_rows(y, x, weight, bias, x_stride, N, eps, BLOCK: tl.constexpr):
    """One program per row, which stays in registers. Grid: M."""
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = columns < N
    v = tl.load(x + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    v = tl.where(inside, v - tl.sum(v, 0) / N, 0.0)
    tl.store(y + row * N + columns, v * tl.rsqrt(tl.sum(v * v, 0) / N + eps) * w + b, mask=inside)
