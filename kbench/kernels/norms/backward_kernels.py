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
from kbench.kernels.norms.tiles import (
    add_terms,
    as_float,
    block,
    load,
    load_each,
    row_sums,
    starts,
    store,
    sums_of_one_row,
    unpacked,
)


@triton.jit
def load_pieces(
    inputs,
    strides,
    statistics,
    rows,
    M,
    start,
    end,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    head=0,
    WINDOW: tl.constexpr = False,
):
    """The statistics of some rows, and a tuple with the elements of each input for every block of the columns from `start` to
    `end`."""
    found = load_each(statistics, rows, rows < M, ROWS == 1 or FULL)
    pointers = starts(inputs, strides, rows, VEC, WINDOW)
    pieces = ()
    for p in tl.static_range(PIECES):
        columns, mask = block(rows, M, start + p * BLOCK, end, ROWS, BLOCK, VEC, head, WINDOW)
        pieces = pieces + (load_each(pointers, columns, mask, FULL),)  # noqa: RUF005
    return found, pieces


@triton.jit
def load_scale(
    weight,
    start,
    end,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    head=0,
    WINDOW: tl.constexpr = False,
):
    """The weight of every block of the columns from `start` to `end`."""
    scale = ()
    for p in tl.static_range(PIECES):
        columns, mask = block(0, 1, start + p * BLOCK, end, 1, BLOCK, VEC, head, WINDOW)
        scale = scale + (load(weight + columns - head, mask, FULL),)  # noqa: RUF005
    return scale


@triton.jit
def sum_row_terms(
    found,
    pieces,
    scale,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    PIECES: tl.constexpr,
    ONE_ROW: tl.constexpr = False,
):
    """The sums of the row terms over all pieces of each row. Those of ONE_ROW are numbers."""
    totals = ()
    for p in tl.static_range(PIECES):
        values = as_float(pieces[p])
        terms = ROW_TERMS(values[0] * scale[p].to(tl.float32), NORMALISED(values[1], found))
        totals = terms if p == 0 else add_terms(totals, terms, True, False)
    return sums_of_one_row(totals) if ONE_ROW else row_sums(totals)


@triton.jit
def write_gradients(
    dx,
    found,
    pieces,
    scale,
    sums,
    totals,
    rows,
    M,
    N,
    start,
    end,
    NORMALISED: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    SUMS: tl.constexpr,
    PACKED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    head=0,
    WINDOW: tl.constexpr = False,
):
    """Write the gradients of some rows, of which `sums` are the sums of the row terms. Return the column terms of each block,
    added to `totals`; with SUMS, of all these rows together."""
    means = ()
    for i in tl.static_range(len(sums)):
        means = means + (sums[i] / N,)  # noqa: RUF005
    new = ()
    for p in tl.static_range(PIECES):
        columns, mask = block(rows, M, start + p * BLOCK, end, ROWS, BLOCK, VEC, head, WINDOW)
        values = unpacked(pieces[p], PACKED)
        normalised = NORMALISED(values[1], found)
        weight = unpacked((scale[p],), PACKED)[0]
        gradient = GRADIENT(values[0] * weight, normalised, means, found, values[2:])
        store(starts((dx,), (N,), rows, VEC, WINDOW)[0] + columns, gradient, mask, FULL)
        terms = COLUMN_TERMS(values[0], normalised)
        for i in tl.static_range(len(terms)):
            term = tl.sum(terms[i], 0, keep_dims=True) if SUMS else terms[i]
            new = new + (totals[p * len(terms) + i] + term,)  # noqa: RUF005
    return new


@triton.jit
def no_totals(count: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    totals = ()
    for _ in tl.static_range(count):
        totals = totals + (tl.zeros((ROWS, BLOCK), tl.float32),)  # noqa: RUF005
    return totals


@triton.jit
def write_totals(
    partial,
    totals,
    part,
    N,
    start,
    end,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    head=0,
    WINDOW: tl.constexpr = False,
):
    """Write the column sums of a program to its row of each matrix in `partial`."""
    for p in tl.static_range(PIECES):
        columns, mask = block(0, 1, start + p * BLOCK, end, 1, BLOCK, VEC, head, WINDOW)
        for i in tl.static_range(len(partial)):
            total = tl.sum(totals[p * len(partial) + i], 0, keep_dims=True)
            store(partial[i] + part.to(tl.int64) * N + columns - head, total, mask, FULL)


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
    PACKED: tl.constexpr,
    PDL: tl.constexpr,
):
    """Each program takes every num_programs-th tile of ROWS rows, in PIECES blocks of BLOCK columns. It keeps the column
    sums in registers, and writes them to its row of each matrix in `partial`, (programs, N). Grid: any.

    With AHEAD, it loads a tile to registers before it computes the one before. STAGES: tiles on the way to shared memory. With
    KEEP, the weight stays in registers.
    """
    pid = tl.program_id(0)
    lanes = tl.arange(0, ROWS)[:, None]
    kept = load_scale(weight, 0, N, BLOCK, PIECES, VEC, FULL) if KEEP else ()
    totals = no_totals(PIECES * len(partial), 1 if SUMS else ROWS, BLOCK)
    if AHEAD:
        rows = pid.to(tl.int64) * ROWS + lanes
        ahead = load_pieces(inputs, strides, statistics, rows, M, 0, N, ROWS, BLOCK, PIECES, VEC, FULL)
        for tile in tl.range(pid, tiles, tl.num_programs(0)):
            found = ahead[0]
            pieces = ahead[1]
            rows = tl.cast(tile, tl.int64) * ROWS + lanes
            after = tl.minimum(tile + tl.num_programs(0), tiles - 1)
            following = tl.cast(after, tl.int64) * ROWS + lanes
            ahead = load_pieces(inputs, strides, statistics, following, M, 0, N, ROWS, BLOCK, PIECES, VEC, FULL)
            scale = kept if KEEP else load_scale(weight, 0, N, BLOCK, PIECES, VEC, FULL)
            sums = sum_row_terms(found, pieces, scale, NORMALISED, ROW_TERMS, PIECES)
            totals = write_gradients(
                dx, found, pieces, scale, sums, totals, rows, M, N, 0, N,
                NORMALISED, COLUMN_TERMS, GRADIENT, SUMS, PACKED, ROWS, BLOCK, PIECES, VEC, FULL,
            )  # fmt: skip
    else:
        for tile in tl.range(pid, tiles, tl.num_programs(0), num_stages=STAGES):
            rows = tl.cast(tile, tl.int64) * ROWS + lanes
            loaded = load_pieces(inputs, strides, statistics, rows, M, 0, N, ROWS, BLOCK, PIECES, VEC, FULL)
            scale = kept if KEEP else load_scale(weight, 0, N, BLOCK, PIECES, VEC, FULL)
            sums = sum_row_terms(loaded[0], loaded[1], scale, NORMALISED, ROW_TERMS, PIECES)
            totals = write_gradients(
                dx, loaded[0], loaded[1], scale, sums, totals, rows, M, N, 0, N,
                NORMALISED, COLUMN_TERMS, GRADIENT, SUMS, PACKED, ROWS, BLOCK, PIECES, VEC, FULL,
            )  # fmt: skip
    if PDL:
        cuda.gdc_launch_dependents()
    write_totals(partial, totals, pid, N, 0, N, BLOCK, PIECES, VEC, FULL)


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
    PACKED: tl.constexpr,
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
        found, pieces = load_pieces(inputs, strides, statistics, rows, M, 0, N, ROWS, BLOCK, PIECES, VEC, FULL)
        scale = load_scale(weight, 0, N, BLOCK, PIECES, VEC, FULL)
        sums = sum_row_terms(found, pieces, scale, NORMALISED, ROW_TERMS, PIECES)
        zeros = ()
        for _ in tl.static_range(PIECES * len(outputs)):
            zeros = zeros + (0.0,)  # noqa: RUF005
        write_gradients(
            dx, found, pieces, scale, sums, zeros, rows, M, N, 0, N,
            NORMALISED, COLUMN_TERMS, GRADIENT, False, PACKED, ROWS, BLOCK, PIECES, VEC, FULL,
        )  # fmt: skip
