# mypy: ignore-errors
"""Triton kernels for the gradients of a normalisation of rows, in float32. `forward.py` says what is computed forward.

With z = (x - mean) * factor, which is x * factor without LAYERNORM, and g = dy * weight:

    dx      = factor * (g - z * mean(g * z) - mean(g)) + dh    without LAYERNORM there is no mean(g); dh may be None
    dweight = sum over the rows of dy * z
    dbias   = sum over the rows of dy                          with LAYERNORM only

The `inputs` are dy, x and, unless it is None, dh. `strides` are how many elements their rows are apart. `statistics` are those
of the forward kernels. `dx` has no gaps between its rows. The sums over the rows have SUMS vectors of N
elements, behind each other, and so has each part of them in `partial`: (parts, SUMS * N).
"""

import triton
import triton.language as tl
from triton.language.extra import cuda

from kbench.kernels.norms.forward import load, load_tile, load_vector, store, tile_block, tile_rows, unpacked
from kbench.kernels.triton_rows import INTERPRETED, row_total


@triton.jit
def row_statistics(statistics, rows, M, LAYERNORM: tl.constexpr, ROWS: tl.constexpr):
    """The factor of each row and, with LAYERNORM, its mean."""
    factor = load(statistics + rows[0], rows[1], ROWS == 1, "")
    if LAYERNORM:
        return factor, load(statistics + M + rows[0], rows[1], ROWS == 1, "")
    else:
        return (factor,)


@triton.jit
def normalised(x, statistics):
    # x * factor - mean * factor would take one instruction less. But if all elements of a row are nearly the same, it leaves
    # the rounding of the products, which may be larger than the difference.
    return (x - statistics[1]) * statistics[0] if len(statistics) == 2 else x * statistics[0]


@triton.jit
def gradient(g, z, means, statistics):
    """In this order, three instructions compute an element, also where g is a product."""
    return (g - (z * means[0] + means[1])) * statistics[0] if len(means) == 2 else (g - z * means[0]) * statistics[0]


@triton.jit
def add_pairs(a, b, c, d):
    return a + c, b + d


@triton.jit
def row_sums(products, gradients, LAYERNORM: tl.constexpr):
    """The sums of one or two blocks over each row. Two are summed together, which takes one exchange between warps."""
    if not LAYERNORM:
        return (row_total(products),)
    elif INTERPRETED:
        return row_total(products), row_total(gradients)
    elif products.shape[0] == 1:
        size: tl.constexpr = products.numel
        return tl.reduce((tl.reshape(products, [size]), tl.reshape(gradients, [size])), 0, add_pairs)
    else:
        return tl.reduce((products, gradients), 1, add_pairs, keep_dims=True)


@triton.jit
def sum_tile(tile, scale, statistics):
    """The sums of g * z and of g over each row of a tile, as `row_sums` returns them."""
    products = None  # not 0.0: the compiler adds it, because the sum of 0.0 and -0.0 is not -0.0
    gradients = None
    for p in tl.static_range(len(tile)):
        g = tile[p][0].to(tl.float32) * scale[p].to(tl.float32)
        product = g * normalised(tile[p][1].to(tl.float32), statistics)
        products = product if p == 0 else products + product
        gradients = g if p == 0 else gradients + g
    return row_sums(products, gradients, len(statistics) == 2)


@triton.jit
def write_tile(
    dx,
    tile,
    scale,
    statistics,
    sums,
    rows,
    first,
    N,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    PACKED: tl.constexpr,
):
    """Write the gradients of some rows, of which `sums` are the sums. Returns for each block dy * z and, with LAYERNORM, dy."""
    means = ()
    for i in tl.static_range(len(sums)):
        means = means + (sums[i] / N,)  # noqa: RUF005
    terms = ()
    for p in tl.static_range(len(tile)):
        lanes, _, mask = tile_block(first + p * BLOCK, N, rows[1], BLOCK, VEC)
        d = unpacked(tile[p][0], PACKED)
        z = normalised(unpacked(tile[p][1], PACKED), statistics)
        slope = gradient(d * unpacked(scale[p], PACKED), z, means, statistics)
        if len(tile[p]) == 3:
            slope += unpacked(tile[p][2], PACKED)
        store(dx + rows[0] * (N // VEC * VEC) + lanes, slope, mask, FULL)
        terms = terms + ((d * z, d) if len(sums) == 2 else (d * z,))
    return terms


@triton.jit
def no_totals(COUNT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    totals = ()
    for _ in tl.static_range(COUNT):
        totals = totals + (tl.zeros((ROWS, BLOCK), tl.float32),)  # noqa: RUF005
    return totals


@triton.jit
def add_terms(totals, terms, TOGETHER: tl.constexpr):
    """The totals of each block with its terms added; with TOGETHER, those of all rows of a tile together."""
    added = ()
    for i in tl.static_range(len(terms)):
        term = tl.sum(terms[i], 0, keep_dims=True) if TOGETHER else terms[i]
        added = added + (totals[i] + term,)  # noqa: RUF005
    return added


@triton.jit(do_not_specialize=["M", "tiles"])
def resident(
    dx,
    partial,
    dy,
    x,
    dh,
    statistics,
    weight,
    dy_stride,
    x_stride,
    dh_stride,
    M,
    N,
    tiles,
    LAYERNORM: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    TOGETHER: tl.constexpr,
    AHEAD: tl.constexpr,
    STAGES: tl.constexpr,
    PACKED: tl.constexpr,
    PDL: tl.constexpr,
):
    """Programs that stay: each takes every n-th tile of ROWS rows, in PIECES blocks of BLOCK columns. It keeps the sums over
    its rows in registers, and writes them to its part of `partial`. STAGES - 1 tiles are on the way to shared memory or, with
    AHEAD, one to registers. With TOGETHER, a thread adds up the rows of a tile before it keeps them. With PDL, the next launch
    may begin when all programs write their sums. Grid: any."""
    inputs = (dy, x) if dh is None else (dy, x, dh)
    strides = (dy_stride, x_stride) if dh is None else (dy_stride, x_stride, dh_stride)
    SUMS: tl.constexpr = 1 + LAYERNORM
    part = tl.program_id(0)
    parts = tl.num_programs(0)
    scale = load_vector(weight, 0, N, BLOCK, PIECES, VEC, FULL)
    totals = no_totals(PIECES * SUMS, 1 if TOGETHER else ROWS, BLOCK)
    if AHEAD:
        first_rows = tile_rows(part, M, ROWS)
        ahead_statistics = row_statistics(statistics, first_rows, M, LAYERNORM, ROWS)
        ahead = load_tile(inputs, strides, first_rows, 0, N, BLOCK, PIECES, VEC, FULL, "")
    for number in tl.range(part, tiles, parts, num_stages=STAGES):
        rows = tile_rows(number, M, ROWS)
        if AHEAD:
            tile = ahead
            tile_statistics = ahead_statistics
            next_rows = tile_rows(tl.minimum(number + parts, tiles - 1), M, ROWS)
            ahead_statistics = row_statistics(statistics, next_rows, M, LAYERNORM, ROWS)
            ahead = load_tile(inputs, strides, next_rows, 0, N, BLOCK, PIECES, VEC, FULL, "")
        else:
            tile_statistics = row_statistics(statistics, rows, M, LAYERNORM, ROWS)
            tile = load_tile(inputs, strides, rows, 0, N, BLOCK, PIECES, VEC, FULL, "")
        sums = sum_tile(tile, scale, tile_statistics)
        terms = write_tile(dx, tile, scale, tile_statistics, sums, rows, 0, N, BLOCK, VEC, FULL, PACKED)
        totals = add_terms(totals, terms, TOGETHER)
    if PDL:
        cuda.gdc_launch_dependents()
    partial += part.to(tl.int64) * SUMS * (N // VEC * VEC)
    for p in tl.static_range(PIECES):
        lanes, columns, _ = tile_block(p * BLOCK, N, True, BLOCK, VEC)
        for i in tl.static_range(SUMS):
            total = tl.sum(totals[p * SUMS + i], 0, keep_dims=True)
            store(partial + i * (N // VEC * VEC) + lanes, total, columns, FULL)


@triton.jit(do_not_specialize=["parts"])
def add_up(sums, partial, parts, N, STEP: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    """The sums of N columns over their parts, always in the same order. Grid: N / BLOCK, rounded up."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    if PDL:
        cuda.gdc_wait()
    total = tl.zeros((STEP, BLOCK), tl.float32)
    for first in range(0, parts, STEP):
        rows = first + tl.arange(0, STEP)[:, None]
        places = partial + rows.to(tl.int64) * N + columns
        total += tl.load(places, mask=(rows < parts) & (columns < N), other=0.0)
    tl.store(sums + columns, tl.sum(total, 0, keep_dims=True), mask=columns < N)


@triton.jit
def sum_columns(
    partial,
    inputs,
    strides,
    statistics,
    chunk,
    first,
    M,
    N,
    LAYERNORM: tl.constexpr,
    STEP: tl.constexpr,
    WIDTH: tl.constexpr,
    VEC: tl.constexpr,
):
    """Write the sums of WIDTH columns, from column `first` on, over the rows from the first of a chunk to the second."""
    lanes, columns, _ = tile_block(first, N, True, WIDTH, VEC)
    totals = no_totals(1 + LAYERNORM, STEP, WIDTH)
    for step in tl.range(chunk[0], chunk[1], STEP):
        numbers = tl.cast(step, tl.int64) + tl.arange(0, STEP)[:, None]
        rows = (numbers, numbers < chunk[1])
        of_rows = row_statistics(statistics, rows, M, LAYERNORM, STEP)
        tile = load_tile(inputs[:2], strides[:2], rows, first, N, WIDTH, 1, VEC, False, "")
        d = tile[0][0].to(tl.float32)
        z = normalised(tile[0][1].to(tl.float32), of_rows)
        totals = add_terms(totals, (d * z, d) if LAYERNORM else (d * z,), False)
    for i in tl.static_range(1 + LAYERNORM):
        tl.store(partial + i * (N // VEC * VEC) + lanes, tl.sum(totals[i], 0, keep_dims=True), mask=columns)


@triton.jit
def write_long_row(
    dx, inputs, strides, of_row, weight, row, N, LAYERNORM: tl.constexpr, BLOCK: tl.constexpr, VEC: tl.constexpr
):
    """Write the gradients of a row that is read twice, in blocks of BLOCK columns."""
    totals = no_totals(2, 1, BLOCK)
    for first in tl.range(0, N, BLOCK):
        scale = load_vector(weight, first, N, BLOCK, 1, VEC, False)
        tile = load_tile(inputs[:2], strides[:2], row, first, N, BLOCK, 1, VEC, False, "")
        g = tile[0][0].to(tl.float32) * scale[0].to(tl.float32)
        totals = add_terms(totals, (g * normalised(tile[0][1].to(tl.float32), of_row), g), False)
    sums = row_sums(totals[0], totals[1], LAYERNORM)
    for first in tl.range(0, N, BLOCK):
        scale = load_vector(weight, first, N, BLOCK, 1, VEC, False)
        tile = load_tile(inputs, strides, row, first, N, BLOCK, 1, VEC, False, "")
        write_tile(dx, tile, scale, of_row, sums, row, first, N, BLOCK, VEC, False, False)


@triton.jit(do_not_specialize=["M", "strips", "parts", "chunk"])
def rows_and_columns(
    dx,
    partial,
    dy,
    x,
    dh,
    statistics,
    weight,
    dy_stride,
    x_stride,
    dh_stride,
    M,
    N,
    strips,
    parts,
    chunk,
    LAYERNORM: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    STEP: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """All gradients by programs that know nothing of each other, so elements are read twice or more. The first strips * parts
    programs each sum WIDTH columns over `chunk` rows, STEP at a time. Every other program computes one row: it holds the row in
    PIECES blocks of BLOCK columns or, if that is 0, reads it twice. Grid: strips * parts + M."""
    inputs = (dy, x) if dh is None else (dy, x, dh)
    strides = (dy_stride, x_stride) if dh is None else (dy_stride, x_stride, dh_stride)
    pid = tl.program_id(0)
    if pid < strips * parts:
        part = pid // strips
        partial += part.to(tl.int64) * (1 + LAYERNORM) * (N // VEC * VEC)
        rows = (part * chunk, tl.minimum(part * chunk + chunk, M))
        first = pid % strips * WIDTH
        sum_columns(partial, inputs, strides, statistics, rows, first, M, N, LAYERNORM, STEP, WIDTH, VEC)
    else:
        row = tile_rows(pid - strips * parts, M, 1)
        of_row = row_statistics(statistics, row, M, LAYERNORM, 1)
        if PIECES > 0:
            scale = load_vector(weight, 0, N, BLOCK, PIECES, VEC, FULL)
            tile = load_tile(inputs, strides, row, 0, N, BLOCK, PIECES, VEC, FULL, "")
            sums = sum_tile(tile, scale, of_row)
            write_tile(dx, tile, scale, of_row, sums, row, 0, N, BLOCK, VEC, FULL, False)
        else:
            write_long_row(dx, inputs, strides, of_row, weight, row, N, LAYERNORM, BLOCK, VEC)
