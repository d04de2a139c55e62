# mypy: ignore-errors
"""Triton kernels that normalise the rows of a matrix, in float32: `y = x / sqrt(mean(x^2) + eps) * weight`.

With `residual`, they normalise the sum of x and the residual, which they write to `h`: that is add_rmsnorm. With `bias`, they
subtract the mean of the row first and add the bias last: that is layernorm. For the backward pass they write to `statistics`,
unless it is None, the factor 1 / sqrt(...) of each row, and behind all factors the mean of each row.

Rows begin at multiples of VEC elements, and consist of whole vectors of VEC elements. `y` has no gaps between its rows. The
kernels of the backward pass share the first functions: tiles of rows, loads and stores, and elements of 16 bits.
"""

import triton
import triton.language as tl

from kbench.kernels.triton_rows import block_lanes, row_total


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
def load_tile(
    inputs,
    strides,
    rows,
    first,
    N,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    POLICY: tl.constexpr,
):
    """PIECES blocks of some rows, from column `first` on. Each is a tuple with the elements of every input. `rows` is what
    `tile_rows` returns."""
    tile = ()
    for p in tl.static_range(PIECES):
        lanes, _, mask = tile_block(first + p * BLOCK, N, rows[1], BLOCK, VEC)
        piece = ()
        for i in tl.static_range(len(inputs)):
            pointers = inputs[i] + rows[0] * (strides[i] // VEC * VEC) + lanes
            piece = piece + (load(pointers, mask, FULL, POLICY),)  # noqa: RUF005 Triton has no other way to append
        tile = tile + (piece,)  # noqa: RUF005
    return tile


@triton.jit
def load_vector(vector, first, N, BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr, FULL: tl.constexpr):
    """PIECES blocks of a vector of the columns, from column `first` on."""
    pieces = ()
    for p in tl.static_range(PIECES):
        lanes, columns, _ = tile_block(first + p * BLOCK, N, True, BLOCK, VEC)
        pieces = pieces + (load(vector + lanes, columns, FULL, ""),)  # noqa: RUF005
    return pieces


@triton.jit
def fence_loads():
    """On an NVIDIA device, loads before it stay before loads after it. Otherwise ptxas moves those whose values are needed late
    behind the arrival of others. No instruction comes of it."""
    code: tl.constexpr = "bar.warp.sync 0xffffffff; mov.b32 $0, $1;"
    tl.inline_asm_elementwise(code, "=r,r", [tl.program_id(0)], dtype=tl.int32, is_pure=False, pack=1)


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


@triton.jit
def write_statistics(statistics, rows, inside, mean, factor, M, LAYERNORM: tl.constexpr, ROWS: tl.constexpr):
    store(statistics + rows, factor, inside, ROWS == 1)
    if LAYERNORM:
        store(statistics + M + rows, mean, inside, ROWS == 1)


@triton.jit(do_not_specialize=["M"])
def rows_in_registers(
    y,
    h,
    statistics,
    x,
    residual,
    weight,
    bias,
    x_stride,
    residual_stride,
    h_stride,
    M,
    N,
    eps,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    EARLY: tl.constexpr,
    FENCE: tl.constexpr,
    PACKED: tl.constexpr,
    POLICY: tl.constexpr,
):
    """Each program holds ROWS rows in registers, in PIECES blocks of BLOCK columns. With FULL, no block reaches beyond the
    matrix. With EARLY, weights are loaded before the sums, and with FENCE before the rows. With PACKED, elements of 16 bits are
    held as they are, not in float32. POLICY is the eviction policy of the loads of x and the residual. Grid: M / ROWS, rounded
    up."""
    LAYERNORM: tl.constexpr = bias is not None
    rows, inside = tile_rows(tl.program_id(0), M, ROWS)
    if FENCE:
        scale = load_vector(weight, 0, N, BLOCK, PIECES, VEC, FULL)
        fence_loads()
    inputs = (x,) if residual is None else (x, residual)
    strides = (x_stride,) if residual is None else (x_stride, residual_stride)
    # all loads come before any store of h, because the compiler moves none across a store
    tile = load_tile(inputs, strides, (rows, inside), 0, N, BLOCK, PIECES, VEC, FULL, POLICY)
    if EARLY and not FENCE:
        scale = load_vector(weight, 0, N, BLOCK, PIECES, VEC, FULL)
        if LAYERNORM:
            shift = load_vector(bias, 0, N, BLOCK, PIECES, VEC, FULL)
    values = ()
    for p in tl.static_range(PIECES):
        value = tile[p][0] if PACKED else tile[p][0].to(tl.float32)
        if residual is not None:
            value += tile[p][1].to(tl.float32)
            lanes, _, mask = tile_block(p * BLOCK, N, inside, BLOCK, VEC)
            store(h + rows * (h_stride // VEC * VEC) + lanes, value, mask, FULL)
        values = values + (value,)  # noqa: RUF005

    mean = 0.0
    if LAYERNORM:
        total = values[0].to(tl.float32)
        for p in tl.static_range(1, PIECES):
            total += values[p].to(tl.float32)
        mean = row_total(total) / N
    squares = tl.zeros((ROWS, BLOCK), tl.float32)
    for p in tl.static_range(PIECES):
        value = unpacked(values[p], PACKED and LAYERNORM)
        if LAYERNORM:
            _, _, mask = tile_block(p * BLOCK, N, inside, BLOCK, VEC)
            value = value - mean if FULL else tl.where(mask, value - mean, 0.0)
        squares += value * value
    factor = tl.rsqrt(row_total(squares) / N + eps)
    if statistics is not None:
        write_statistics(statistics, rows, inside, mean, factor, M, LAYERNORM, ROWS)

    for p in tl.static_range(PIECES):
        lanes, columns, mask = tile_block(p * BLOCK, N, inside, BLOCK, VEC)
        value = unpacked(values[p], PACKED)
        w = scale[p] if EARLY else load(weight + lanes, columns, FULL, "")
        if LAYERNORM:
            b = shift[p] if EARLY else load(bias + lanes, columns, FULL, "")
            value = (value - mean) * factor * w.to(tl.float32) + b.to(tl.float32)
        else:
            value = value * factor * w.to(tl.float32)
        store(y + rows * (N // VEC * VEC) + lanes, value, mask, FULL)


@triton.jit(do_not_specialize=["M"])
def rows_read_twice(
    y,
    h,
    statistics,
    x,
    residual,
    weight,
    bias,
    x_stride,
    residual_stride,
    h_stride,
    M,
    N,
    eps,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
):
    """For rows that registers cannot hold: each program reads one row twice, in blocks of BLOCK columns. Grid: M."""
    LAYERNORM: tl.constexpr = bias is not None
    row = tl.program_id(0).to(tl.int64)
    x += row * (x_stride // VEC * VEC)
    y += row * (N // VEC * VEC)
    if residual is not None:
        residual += row * (residual_stride // VEC * VEC)
        h += row * (h_stride // VEC * VEC)
    pivot = 0.0
    if LAYERNORM:  # near the mean, so that the sum of squares of a row with a large mean loses no digits
        lanes, mask, _ = tile_block(0, N, True, BLOCK, VEC)
        pivot = row_total(load(x + lanes, mask, False, "").to(tl.float32)) / tl.minimum(N, BLOCK)
    total = tl.zeros((1, BLOCK), tl.float32)
    squares = tl.zeros((1, BLOCK), tl.float32)
    for first in tl.range(0, N, BLOCK):
        lanes, mask, _ = tile_block(first, N, True, BLOCK, VEC)
        value = load(x + lanes, mask, False, "evict_last").to(tl.float32)
        if residual is not None:
            value += load(residual + lanes, mask, False, "evict_last").to(tl.float32)
        if LAYERNORM:
            value = tl.where(mask, value - pivot, 0.0)
            total += value
        squares += value * value
    mean = 0.0
    variance = row_total(squares) / N
    if LAYERNORM:
        distance = row_total(total) / N
        mean = pivot + distance
        # not less than 0, and NaN if the row has an infinity: on a GPU, a plain maximum would make 0 of NaN
        variance = tl.maximum(variance - distance * distance, 0.0, propagate_nan=tl.PropagateNan.ALL)
    factor = tl.rsqrt(variance + eps)
    if statistics is not None:
        write_statistics(statistics, row, True, mean, factor, M, LAYERNORM, 1)
    for first in tl.range(0, N, BLOCK):
        lanes, mask, _ = tile_block(first, N, True, BLOCK, VEC)
        value = load(x + lanes, mask, False, "evict_first").to(tl.float32)
        if residual is not None:
            value += load(residual + lanes, mask, False, "evict_first").to(tl.float32)
            tl.store(h + lanes, value, mask=mask)  # it may be the residual, which no other program reads
        scale = load(weight + lanes, mask, False, "").to(tl.float32)
        if LAYERNORM:
            value = (value - mean) * factor * scale + load(bias + lanes, mask, False, "").to(tl.float32)
        else:
            value = value * factor * scale
        tl.store(y + lanes, value, mask=mask)
