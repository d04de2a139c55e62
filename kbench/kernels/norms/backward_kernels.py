# mypy: ignore-errors
"""Triton kernels for the gradients of a normalisation of rows. An operator gives its mathematics as functions:

NORMALISED    takes an element of the row and the row's statistics
ROW_TERMS     what is summed over a row: takes the gradient times the weight, and the normalised element, returns a tuple
COLUMN_TERMS  what is summed over the rows: takes the gradient and the normalised element, returns a tuple with a term of
              each weight
GRADIENT      the gradient of the row: takes the gradient times the weight, the normalised element, the means of the row
              terms, the statistics, and a tuple with an element of each further input

`inputs` is a tuple of pointers to (M, N) matrices: the gradient of the output, what was normalised, and further inputs.
`statistics` are those of the forward kernels. `dx` is the gradient of the rows, (M, N). Rows begin at multiples of VEC
elements, and consist of whole vectors of VEC elements. With FULL, blocks have no element outside of the matrix.
"""

import triton
import triton.language as tl
from triton.language.extra import cuda

from kbench.kernels.norms.column_kernels import column_strip
from kbench.kernels.norms.tiles import as_float, block, load, load_each, row_sums, starts, store


@triton.jit
def load_pieces(
    inputs,
    strides,
    statistics,
    rows,
    M,
    N,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
):
    """The statistics of some rows, and a tuple with the elements of each input for every block of these rows."""
    found = load_each(statistics, rows, rows < M, ROWS == 1 or FULL)
    pointers = starts(inputs, strides, rows, VEC)
    pieces = ()
    for p in tl.static_range(PIECES):
        columns, mask = block(rows, M, p * BLOCK, N, ROWS, BLOCK, VEC)
        pieces = pieces + (load_each(pointers, columns, mask, FULL),)  # noqa: RUF005
    return found, pieces


@triton.jit
def row_gradients(
    dx,
    found,
    pieces,
    scale,
    totals,
    rows,
    M,
    N,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    SUMS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
):
    """Write the gradient of some rows, and return the column terms of each block, added to `totals`; with SUMS, of all rows."""
    row_totals = ()
    for p in tl.static_range(PIECES):
        values = as_float(pieces[p])
        terms = ROW_TERMS(values[0] * scale[p].to(tl.float32), NORMALISED(values[1], found))
        if p == 0:
            row_totals = terms
        else:
            added = ()
            for i in tl.static_range(len(terms)):
                added = added + (row_totals[i] + terms[i],)  # noqa: RUF005
            row_totals = added
    sums = row_sums(row_totals)
    means = ()
    for i in tl.static_range(len(sums)):
        means = means + (sums[i] / N,)  # noqa: RUF005
    new = ()
    for p in tl.static_range(PIECES):
        columns, mask = block(rows, M, p * BLOCK, N, ROWS, BLOCK, VEC)
        values = as_float(pieces[p])
        normalised = NORMALISED(values[1], found)
        gradient = GRADIENT(values[0] * scale[p].to(tl.float32), normalised, means, found, values[2:])
        store(dx + rows * (N // VEC * VEC) + columns, gradient, mask, FULL)
        terms = COLUMN_TERMS(values[0], normalised)
        for i in tl.static_range(len(terms)):
            term = tl.sum(terms[i], 0, keep_dims=True) if SUMS else terms[i]
            new = new + (totals[p * len(terms) + i] + term,)  # noqa: RUF005
    return new


@triton.jit(do_not_specialize=["M", "tiles"])
def resident(
    dx,
    partial,
    inputs,
    statistics,
    weight,
    strides,
    M,
    N,
    tiles,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    SUMS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    AHEAD: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP: tl.constexpr,
    PDL: tl.constexpr,
):
    """Each program takes every num_programs-th tile of ROWS rows, in PIECES blocks of BLOCK columns. It keeps the column
    sums in registers, and writes them to its row of each matrix in `partial`, (programs, N). Grid: any.

    With AHEAD, it loads a tile to registers before it computes the one before. STAGES: tiles on the way to shared memory. With
    KEEP, the weight stays in registers.
    """
    pid = tl.program_id(0)
    lanes = tl.arange(0, ROWS)[:, None]
    scale = ()
    totals = ()
    for p in tl.static_range(PIECES):
        columns, mask = block(0, 1, p * BLOCK, N, 1, BLOCK, VEC)
        if KEEP:
            scale = scale + (load(weight + columns, mask, FULL),)  # noqa: RUF005
        for _ in tl.static_range(len(partial)):
            totals = totals + (tl.zeros((1 if SUMS else ROWS, BLOCK), tl.float32),)  # noqa: RUF005
    if AHEAD:
        rows = pid.to(tl.int64) * ROWS + lanes
        ahead = load_pieces(inputs, strides, statistics, rows, M, N, ROWS, BLOCK, PIECES, VEC, FULL)
        for tile in tl.range(pid, tiles, tl.num_programs(0)):
            found = ahead[0]
            pieces = ahead[1]
            rows = tl.cast(tile, tl.int64) * ROWS + lanes
            after = tl.minimum(tile + tl.num_programs(0), tiles - 1)
            following = tl.cast(after, tl.int64) * ROWS + lanes
            ahead = load_pieces(inputs, strides, statistics, following, M, N, ROWS, BLOCK, PIECES, VEC, FULL)
            here = scale
            if not KEEP:
                for p in tl.static_range(PIECES):
                    columns, mask = block(0, 1, p * BLOCK, N, 1, BLOCK, VEC)
                    here = here + (load(weight + columns, mask, FULL),)  # noqa: RUF005
            totals = row_gradients(
                dx, found, pieces, here, totals, rows, M, N,
                NORMALISED, ROW_TERMS, COLUMN_TERMS, GRADIENT, SUMS, ROWS, BLOCK, PIECES, VEC, FULL,
            )  # fmt: skip
    else:
        for tile in tl.range(pid, tiles, tl.num_programs(0), num_stages=STAGES):
            rows = tl.cast(tile, tl.int64) * ROWS + lanes
            loaded = load_pieces(inputs, strides, statistics, rows, M, N, ROWS, BLOCK, PIECES, VEC, FULL)
            here = scale
            if not KEEP:
                for p in tl.static_range(PIECES):
                    columns, mask = block(0, 1, p * BLOCK, N, 1, BLOCK, VEC)
                    here = here + (load(weight + columns, mask, FULL),)  # noqa: RUF005
            totals = row_gradients(
                dx, loaded[0], loaded[1], here, totals, rows, M, N,
                NORMALISED, ROW_TERMS, COLUMN_TERMS, GRADIENT, SUMS, ROWS, BLOCK, PIECES, VEC, FULL,
            )  # fmt: skip
    if PDL:
        cuda.gdc_launch_dependents()
    for p in tl.static_range(PIECES):
        columns, mask = block(0, 1, p * BLOCK, N, 1, BLOCK, VEC)
        for i in tl.static_range(len(partial)):
            total = totals[p * len(partial) + i]
            if not SUMS:
                total = tl.sum(total, 0, keep_dims=True)
            store(partial[i] + pid.to(tl.int64) * N + columns, total, mask, FULL)


@triton.jit(do_not_specialize=["P"])
def add_up(outputs, partial, P, N, STEP: tl.constexpr, BLOCK: tl.constexpr, PDL: tl.constexpr):
    """Each output, (N,), is the sum over the rows of a matrix in `partial`, (P, N). Grid: N / BLOCK, rounded up, for every
    output."""
    blocks = tl.num_programs(0) // len(outputs)
    columns = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)[None, :]
    if PDL:
        cuda.gdc_wait()
    for i in tl.static_range(len(outputs)):
        if tl.program_id(0) // blocks == i:
            total = tl.zeros((STEP, BLOCK), tl.float32)
            for first in range(0, P, STEP):
                rows = first + tl.arange(0, STEP)[:, None]
                total += tl.load(
                    partial[i] + rows.to(tl.int64) * N + columns, mask=(rows < P) & (columns < N), other=0.0
                )
            tl.store(outputs[i] + columns, tl.sum(total, 0, keep_dims=True), mask=columns < N)


@triton.jit(do_not_specialize=["M", "strips"])
def rows_and_columns(
    dx,
    outputs,
    inputs,
    statistics,
    weight,
    strides,
    M,
    N,
    strips,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    STEP: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """All gradients of a small matrix, in one launch that reads it twice. The first `strips` programs each sum WIDTH columns
    over all rows. Every other one computes ROWS rows. Grid: strips + M / ROWS, rounded up."""
    pid = tl.program_id(0)
    if pid < strips:
        column_strip(
            dx, outputs, (), inputs[:2], statistics, weight, strides[:2], 0, M, N, pid * WIDTH, 0,
            NORMALISED, COLUMN_TERMS, GRADIENT, STEP, WIDTH, 1, VEC,
        )  # fmt: skip
    else:
        rows = (pid - strips).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        found, pieces = load_pieces(inputs, strides, statistics, rows, M, N, ROWS, BLOCK, PIECES, VEC, FULL)
        scale = ()
        zeros = ()
        for p in tl.static_range(PIECES):
            columns, mask = block(0, 1, p * BLOCK, N, 1, BLOCK, VEC)
            scale = scale + (load(weight + columns, mask, FULL),)  # noqa: RUF005
            for _ in tl.static_range(len(outputs)):
                zeros = zeros + (0.0,)  # noqa: RUF005
        row_gradients(
            dx, found, pieces, scale, zeros, rows, M, N,
            NORMALISED, ROW_TERMS, COLUMN_TERMS, GRADIENT, False, ROWS, BLOCK, PIECES, VEC, FULL,
        )  # fmt: skip
