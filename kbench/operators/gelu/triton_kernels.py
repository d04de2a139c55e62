# mypy: ignore-errors
"""The Triton kernels of GELU, in both forms, computed in float32.

They use only what Triton's interpreter supports, so that they can be checked without a GPU: no libdevice and no inline
assembly.
"""

import triton
import triton.language as tl


@triton.jit
def _gelu(x, TANH: tl.constexpr):
    """x Phi(x), with Phi = 1 / (1 + 2^-t): no cancellation for Phi near 0, and correct if the power overflows.

    For the tanh form, t = 2 log2(e) sqrt(2/pi) (x + 0.044715 x^3). For the exact form, t = log2(Phi(x) / Phi(-x)) is x
    times a polynomial in x^2. Its coefficients minimise the largest error of Phi, which is 3e-8 (linear programming over
    2500 values of |x| < 6, against fp64). The last coefficient is positive, so t keeps growing beyond 6.
    """
    s = x * x
    if TANH:
        p = 0.1029432397 * s + 2.302208198
    else:
        p = 5.096981747e-9 * s - 3.827375110e-7
        p = p * s + 1.145444185e-5
        p = p * s - 1.596649963e-4
        p = p * s - 9.382911958e-5
        p = p * s + 1.048348993e-1
        p = p * s + 2.302209377
    # the square of a reciprocal square root: one instruction instead of the four of a division
    r = tl.math.rsqrt(1 + tl.exp2(-x * p))
    return x * (r * r)


@triton.jit
def _whole(out, x, cols, TANH: tl.constexpr, POLICY: tl.constexpr):
    v = tl.load(x + cols, eviction_policy=POLICY).to(tl.float32)
    tl.store(out + cols, _gelu(v, TANH))


@triton.jit
def _part(out, x, first, N, TANH: tl.constexpr, PART: tl.constexpr, POLICY: tl.constexpr):
    """PART elements from `first` on. A whole part has no mask, which keeps its accesses 16 bytes wide even if N is odd."""
    cols = first + tl.arange(0, PART)
    if first + PART <= N:
        _whole(out, x, cols, TANH, POLICY)
    else:
        v = tl.load(x + cols, mask=cols < N, eviction_policy=POLICY).to(tl.float32)
        tl.store(out + cols, _gelu(v, TANH), mask=cols < N)


@triton.jit
def gelu(out, x, N, TANH: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, POLICY: tl.constexpr):
    """N elements in memory order, BLOCK per program. Grid: ceil(N / BLOCK). Offsets are 64-bit.

    POLICY: the eviction policy of loads. EVEN: BLOCK divides N. As a constant this saves 15 ns of 1.06 us for few elements.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    if EVEN:
        _whole(out, x, first + tl.arange(0, BLOCK), TANH, POLICY)
    else:
        _part(out, x, first, N, TANH, BLOCK, POLICY)


@triton.jit
def gelu_rows(
    out,
    x,
    row_stride,
    N,
    blocks,
    TANH: tl.constexpr,
    BLOCK: tl.constexpr,
    PART: tl.constexpr,
    POLICY: tl.constexpr,
):
    """Each program computes BLOCK elements of a row, PART at a time; `blocks` programs share the row. Grid: rows * blocks.

    `x` has rows of N neighbouring elements, `row_stride` elements apart; `out` has the same rows without gaps. Offsets are
    64-bit, because the offset of an element can pass 2^31.
    """
    pid = tl.program_id(0)
    row = (pid // blocks).to(tl.int64)
    for start in range(0, BLOCK, PART):
        first = (pid % blocks).to(tl.int64) * BLOCK + start
        _part(out + row * N, x + row * row_stride, first, N, TANH, PART, POLICY)
