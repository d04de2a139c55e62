# mypy: ignore-errors
"""The Triton kernel of GELU, in both forms, computed in float32.

Written with what Triton's interpreter has too, so that it can be checked without a GPU: no libdevice and no inline
assembly.
"""

import triton
import triton.language as tl


@triton.jit
def _gelu(x, TANH: tl.constexpr):
    if TANH:
        # 0.5 (1 + tanh u) = sigmoid(2u): no cancellation where tanh u nears -1, and right where exp overflows
        u = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        y = x * tl.sigmoid(2 * u)
    else:
        y = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    return y


@triton.jit
def gelu(out, x, row_stride, N, blocks, TANH: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr):
    """Each program does BLOCK elements of a row, PART at a time, and `blocks` programs do the row. Grid: rows * blocks.

    `x` has rows of N neighbouring elements, `row_stride` elements apart; `out` has the same rows without gaps. Offsets
    are 64-bit: an element's may pass 2^31 where a program's number does not.
    """
    pid = tl.program_id(0)
    row = (pid // blocks).to(tl.int64)
    for start in range(0, BLOCK, PART):
        cols = (pid % blocks).to(tl.int64) * BLOCK + start + tl.arange(0, PART)
        v = tl.load(x + row * row_stride + cols, mask=cols < N).to(tl.float32)
        tl.store(out + row * N + cols, _gelu(v, TANH), mask=cols < N)
