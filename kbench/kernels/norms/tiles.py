# mypy: ignore-errors
"""What the Triton kernels of this folder share: blocks of rows, and tuples of values, one for each of several matrices."""

import triton
import triton.language as tl
from triton import knobs

_INTERPRETED = tl.constexpr(knobs.runtime.interpret)

PLAIN = tl.constexpr("")
"""The `eviction_policy` of loads that ask nothing of the caches."""


@triton.jit
def block(
    rows,
    M,
    first,
    N,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    head=0,
    WINDOW: tl.constexpr = False,
):
    """The lanes from `first` on, and a mask of the elements that exist. It is the same for all elements of a vector. With
    WINDOW, rows begin in lane `head` of a vector, and the mask has whole vectors of the row only."""
    lanes = first + tl.arange(0, BLOCK)[None, :]
    vectors = lanes // VEC * VEC
    mask = vectors < N
    if WINDOW:
        mask = mask & (vectors >= head)
    if ROWS > 1:
        mask = mask & (rows < M)
    return lanes, mask


@triton.jit
def head_of(row, stride, VEC: tl.constexpr, WINDOW: tl.constexpr):
    """The lane in which a row begins. It is a constant without WINDOW, when every row begins in lane 0."""
    return (row * stride & (VEC - 1)).to(tl.int32) if WINDOW else 0


@triton.jit
def load(pointers, mask, FULL: tl.constexpr, EVICTION: tl.constexpr = PLAIN):
    if FULL:
        return tl.load(pointers, eviction_policy=EVICTION)
    return tl.load(pointers, mask=mask, other=0.0, eviction_policy=EVICTION)


@triton.jit
def store(pointers, values, mask, FULL: tl.constexpr):
    if FULL:
        tl.store(pointers, values)
    else:
        tl.store(pointers, values, mask=mask)


@triton.jit
def starts(matrices, strides, rows, VEC: tl.constexpr, WINDOW: tl.constexpr = False):
    """Pointers to the first element of each row, in each of several matrices; with WINDOW, to the vector that has it."""
    found = ()
    for i in tl.static_range(len(matrices)):
        offset = rows * strides[i] // VEC * VEC if WINDOW else rows * (strides[i] // VEC * VEC)
        found = found + (matrices[i] + offset,)  # noqa: RUF005 Triton has no other way to append
    return found


@triton.jit
def load_each(pointers, offsets, mask, FULL: tl.constexpr, EVICTION: tl.constexpr = PLAIN):
    """What lies at an offset from each of several pointers, in its own dtype."""
    loaded = ()
    for i in tl.static_range(len(pointers)):
        loaded = loaded + (load(pointers[i] + offsets, mask, FULL, EVICTION),)  # noqa: RUF005
    return loaded


@triton.jit
def as_float(values):
    floats = ()
    for i in tl.static_range(len(values)):
        floats = floats + (values[i].to(tl.float32),)  # noqa: RUF005
    return floats


@triton.jit
def unpacked(values, PACKED: tl.constexpr):
    """The same as `as_float`. With PACKED, for a second use of values in 16 bits on an NVIDIA device: PTX converts them anew.
    The compiler would keep the first results, in two registers for what one holds."""
    floats = ()
    for i in tl.static_range(len(values)):
        if PACKED and values[i].dtype == tl.bfloat16:
            new = tl.inline_asm_elementwise(
                "{.reg .b32 t; shl.b32 t, $2, 16; mov.b32 $0, t; and.b32 t, $2, 0xffff0000; mov.b32 $1, t;}",
                "=f,=f,r", [values[i]], dtype=tl.float32, is_pure=False, pack=2,
            )  # fmt: skip
        elif PACKED and values[i].dtype == tl.float16:
            new = tl.inline_asm_elementwise(
                "{.reg .b16 low, high; mov.b32 {low, high}, $2; cvt.f32.f16 $0, low; cvt.f32.f16 $1, high;}",
                "=f,=f,r", [values[i]], dtype=tl.float32, is_pure=False, pack=2,
            )  # fmt: skip
        else:
            new = values[i].to(tl.float32)
        floats = floats + (new,)  # noqa: RUF005
    return floats


@triton.jit
def add_terms(totals, terms, mask, MASKED: tl.constexpr):
    """The sum of two tuples, element by element. With MASKED, terms outside of the mask do not count."""
    added = ()
    for i in tl.static_range(len(terms)):
        term = tl.where(mask, terms[i], 0.0) if MASKED else terms[i]
        added = added + (totals[i] + term,)  # noqa: RUF005
    return added


@triton.jit
def add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def row_sums(totals):
    """The sum of each row, for one or two matrices. Two are summed together, which takes one exchange between warps."""
    if len(totals) == 2 and not _INTERPRETED:
        return tl.reduce((totals[0], totals[1]), 1, add_pairs, keep_dims=True)
    sums = ()
    for i in tl.static_range(len(totals)):
        sums = sums + (tl.sum(totals[i], 1, keep_dims=True),)  # noqa: RUF005
    return sums


@triton.jit
def sums_of_one_row(totals):
    """The same for blocks of one row, as numbers. A number has no layout: it combines with blocks of any size."""
    if len(totals) == 2 and not _INTERPRETED:
        size: tl.constexpr = totals[0].numel
        return tl.reduce((tl.reshape(totals[0], [size]), tl.reshape(totals[1], [size])), 0, add_pairs)
    sums = ()
    for i in tl.static_range(len(totals)):
        sums = sums + (tl.sum(totals[i]),)  # noqa: RUF005
    return sums
