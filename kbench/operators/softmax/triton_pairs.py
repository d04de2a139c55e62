# mypy: ignore-errors
"""Pairs of neighbouring 16-bit elements in 32-bit words, for Triton kernels that hold a row twice as densely as float32.

Triton converts an element once, and holds the float32. Here a kernel holds words and makes float32 of them each time it
needs them, which the compiler would undo if it could see it: so a little of it is PTX, for NVIDIA alone. Triton's interpreter
knows no PTX, and does the same by other means.
"""

import triton
import triton.language as tl
from triton import knobs

INTERPRETED = tl.constexpr(knobs.runtime.interpret)


@triton.jit
def minus_infinities(like: tl.constexpr):
    """A word of two -inf of type `like`."""
    word: tl.constexpr = -0x7F0080 if like == tl.bfloat16 else -0x3FF0400
    return word


@triton.jit
def halves(words, like: tl.constexpr):
    """The two elements of type `like` of each word, in float32."""
    if not INTERPRETED:
        words = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [words], tl.int32, is_pure=False, pack=1)
    if like == tl.bfloat16:
        return (words << 16).to(tl.float32, bitcast=True), (words & -0x10000).to(tl.float32, bitcast=True)
    low, high = (words & 0xFFFF).to(tl.int16), (words >> 16).to(tl.int16)
    return low.to(like, bitcast=True).to(tl.float32), high.to(like, bitcast=True).to(tl.float32)


@triton.jit
def words_of(low, high, like: tl.constexpr):
    """Words of two float32 each, rounded to `like`."""
    if INTERPRETED:
        low = low.to(like).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        return (high.to(like).to(tl.int16, bitcast=True).to(tl.int32) << 16) | low
    convert: tl.constexpr = "cvt.rn.bf16x2.f32 $0, $2, $1;" if like == tl.bfloat16 else "cvt.rn.f16x2.f32 $0, $2, $1;"
    return tl.inline_asm_elementwise(convert, "=r,r,r", [low, high], tl.int32, is_pure=True, pack=1)


@triton.jit
def _larger_bf16(a, b):
    return tl.inline_asm_elementwise("max.bf16x2 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, is_pure=True, pack=1)


@triton.jit
def _larger_f16(a, b):
    return tl.inline_asm_elementwise("max.f16x2 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, is_pure=True, pack=1)


@triton.jit
def largest(words, like: tl.constexpr):
    """The largest element of all words, in float32. Skips NaN, as `tl.max` does."""
    if INTERPRETED:
        low, high = halves(words, like)
        return tl.max(tl.maximum(low, high), 0)
    elif like == tl.bfloat16:
        low, high = halves(tl.reduce(words, 0, _larger_bf16), like)
        return tl.maximum(low, high)
    else:
        low, high = halves(tl.reduce(words, 0, _larger_f16), like)
        return tl.maximum(low, high)
