# mypy: ignore-errors
"""Triton kernels of the row softmax. Which one runs where is decided in `triton.py`.

All take the same arguments, so that one launch serves them all: `out` (M, N) contiguous, `x` (M, N) with rows
`row_stride` elements apart and neighbouring columns, M, N, then their compile-time constants. All compute in float32,
and row offsets in 64 bits: row * row_stride passes 2^31 long before memory ends.

None tests for special values. `tl.max` skips NaN, but a NaN less anything is NaN and so is the sum; a row that is -inf
throughout gives -inf - -inf = NaN, and so does +inf - +inf: the same rows are NaN as in torch.
"""

import triton
import triton.language as tl


@triton.jit
def _softmax(v, axis: tl.constexpr):
    """Softmax of a block in registers, along `axis`. Columns past the row's end hold -inf and become zeros."""
    e = tl.exp(v - tl.max(v, axis, keep_dims=True))
    return e / tl.sum(e, axis, keep_dims=True)


@triton.jit(do_not_specialize=["M"])
def row(out, x, row_stride, M, N, BLOCK: tl.constexpr):
    """One program per row, the row in registers. Grid: M."""
    pid = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + pid * row_stride + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
    tl.store(out + pid * N + cols, _softmax(v, 0), mask=cols < N)


@triton.jit(do_not_specialize=["M"])
def tile(out, x, row_stride, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """ROWS short rows per program, so that a program has enough loads in flight. Grid: M / ROWS, rounded up."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    mask = (rows < M) & (cols < N)
    v = tl.load(x + rows * row_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    tl.store(out + rows * N + cols, _softmax(v, 1), mask=mask)


@triton.jit(do_not_specialize=["M"])
def persistent(out, x, row_stride, M, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Each program strides over the rows; with STAGES > 1 the next rows are loaded while one is computed. Grid: any."""
    cols = tl.arange(0, BLOCK)
    for i in tl.range(tl.program_id(0).to(tl.int64), M, tl.num_programs(0), num_stages=STAGES):
        r = tl.cast(i, tl.int64)  # it is already, except in the interpreter
        v = tl.load(x + r * row_stride + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        tl.store(out + r * N + cols, _softmax(v, 0), mask=cols < N)


@triton.jit(do_not_specialize=["M"])
def online(out, x, row_stride, M, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """One program per row, reading the row twice in pieces of BLOCK: for rows that registers cannot hold. Grid: M.

    Every lane keeps the maximum and the sum of its own columns (Milakov and Gimelshein, "Online normalizer calculation
    for softmax", 2018), so that the loop has no reduction across threads; the lanes are combined once, after it.
    """
    pid = tl.program_id(0).to(tl.int64)
    x += pid * row_stride
    out += pid * N
    lanes = tl.arange(0, BLOCK)

    lane_max = tl.full((BLOCK,), -float("inf"), tl.float32)
    lane_sum = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        cols = start + lanes
        v = tl.load(x + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        new_max = tl.maximum(lane_max, v)
        # a lane that has seen only -inf must keep a sum of zero, not turn NaN and take its row with it
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        lane_sum = lane_sum * tl.exp(lane_max - shift) + tl.exp(v - shift)
        lane_max = new_max

    row_max = tl.max(lane_max, 0)
    row_sum = tl.sum(lane_sum * tl.exp(lane_max - row_max), 0)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        cols = start + lanes
        v = tl.load(x + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        tl.store(out + cols, tl.exp(v - row_max) / row_sum, mask=cols < N)
