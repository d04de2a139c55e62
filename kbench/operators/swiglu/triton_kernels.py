# mypy: ignore-errors
"""The Triton kernels of SwiGLU. They compute in float32."""

import triton
import triton.language as tl


@triton.jit
def forward_block(y, gate, up, total, BLOCK: tl.constexpr, POLICY: tl.constexpr):
    """BLOCK elements per program. Grid: ceil(total / BLOCK)."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
    u = tl.load(up + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
    tl.store(y + at, g / (1 + tl.exp(-g)) * u, mask=at < total)


@triton.jit
def backward_block(d_gate, d_up, dy, gate, up, total, BLOCK: tl.constexpr, POLICY: tl.constexpr):
    """BLOCK elements per program. Grid: ceil(total / BLOCK)."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    d = tl.load(dy + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
    g = tl.load(gate + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
    u = tl.load(up + at, mask=at < total, other=0.0, eviction_policy=POLICY).to(tl.float32)
    s = 1 / (1 + tl.exp(-g))
    tl.store(d_gate + at, d * u * s * (1 + g * (1 - s)), mask=at < total)
    tl.store(d_up + at, d * g * s, mask=at < total)
