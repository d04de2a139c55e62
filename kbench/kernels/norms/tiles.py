# mypy: ignore-errors
"""What the kernels of this folder share: tiles of rows, loads and stores, and elements of 16 bits."""

import triton
import triton.language as tl

from kbench.kernels.triton_rows import block_lanes


@triton.jit
def tile_rows(tile, M, ROWS: tl.constexpr):
    """The rows of a tile, and which of them exist. One row is a number, which always exists: a number has no layout, so it
    combines with blocks of any size."""
    if ROWS == 1:
        return tl.cast(tile, tl.int64), True
    else:
        rows = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        return rows, rows < M


@triton.jit
def tile_block(first, end, inside, BLOCK: tl.constexpr, VEC: tl.constexpr):
    """The lanes of the block that begins at column `first`, a mask of the columns before `end`, and a mask of the elements that
    exist in the rows of a tile."""
    lanes, columns = block_lanes(first, end, True, 0, BLOCK, VEC, False)
    return lanes, columns, columns & inside


@triton.jit
def load(pointers, mask, FULL: tl.constexpr, POLICY: tl.constexpr):
    """POLICY is the eviction policy. It has no default: before Triton 3.7, a word as a default does not compile."""
    if FULL:
        return tl.load(pointers, eviction_policy=POLICY)
    else:
        return tl.load(pointers, mask=mask, other=0.0, eviction_policy=POLICY)


@triton.jit
def store(pointers, values, mask, FULL: tl.constexpr):
    if FULL:
        tl.store(pointers, values)
    else:
        tl.store(pointers, values, mask=mask)


@triton.jit
def unpacked(values, PACKED: tl.constexpr):
    """The values in float32. With PACKED, for a second use of values in 16 bits on an NVIDIA device: PTX converts them anew.
    The compiler would keep the first results, in two registers for what one holds."""
    if PACKED and values.dtype == tl.bfloat16:
        return tl.inline_asm_elementwise(
            "{.reg .b32 t; shl.b32 t, $2, 16; mov.b32 $0, t; and.b32 t, $2, 0xffff0000; mov.b32 $1, t;}",
            "=f,=f,r", [values], dtype=tl.float32, is_pure=False, pack=2,
        )  # fmt: skip
    elif PACKED and values.dtype == tl.float16:
        return tl.inline_asm_elementwise(
            "{.reg .b16 low, high; mov.b32 {low, high}, $2; cvt.f32.f16 $0, low; cvt.f32.f16 $1, high;}",
            "=f,=f,r", [values], dtype=tl.float32, is_pure=False, pack=2,
        )  # fmt: skip
    else:
        return values.to(tl.float32)
