# mypy: ignore-errors
"""Triton kernels that normalise the rows of a matrix. An operator gives its mathematics as functions:

VALUE       what a row is made of: takes a tuple with an element of each input
TERMS       what is summed over a row: takes the value and a pivot, returns a tuple
STATISTICS  what the sums say of the row: takes the sums, the pivot, N and eps, returns a tuple
RESULTS     what is written: takes the value, the statistics and a tuple with an element of each weight, returns a tuple

With PIVOT, terms are differences from a pivot, the mean of the row or of its first block, so that a large offset does not
cancel. All compute in float32. `inputs`, `outputs`, `weights` and `saved` are tuples of pointers: to (M, N) matrices whose rows
are `input_strides` and `output_strides` elements apart, to (N,) vectors, and to (M,) vectors of float32 for the statistics, or
().

Rows begin at multiples of VEC elements and consist of whole vectors of VEC elements. With FULL, blocks have no element outside
of the matrix.
"""

import triton
import triton.language as tl

from kbench.kernels.norms.tiles import add_terms, as_float, block, load_each, row_sums, starts, store


@triton.jit(do_not_specialize=["M"])
def registers(
    outputs,
    inputs,
    weights,
    saved,
    output_strides,
    input_strides,
    M,
    N,
    eps,
    VALUE: tl.constexpr,
    TERMS: tl.constexpr,
    STATISTICS: tl.constexpr,
    RESULTS: tl.constexpr,
    PIVOT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    EARLY: tl.constexpr,
):
    """ROWS rows per program, each in PIECES blocks of BLOCK columns, which stay in registers. Grid: M / ROWS, rounded up.

    With EARLY, weights are loaded before the rows are reduced, not after.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    sources = starts(inputs, input_strides, rows, VEC)
    values = ()
    weight = ()
    for p in tl.static_range(PIECES):
        columns, mask = block(rows, M, p * BLOCK, N, ROWS, BLOCK, VEC)
        values = values + (VALUE(as_float(load_each(sources, columns, mask, FULL))),)  # noqa: RUF005
    if EARLY:
        for p in tl.static_range(PIECES):
            columns, mask = block(rows, M, p * BLOCK, N, 1, BLOCK, VEC)
            weight = weight + (load_each(weights, columns, mask, FULL),)  # noqa: RUF005

    pivot = 0.0
    if PIVOT:
        total = values[0]
        for p in tl.static_range(1, PIECES):
            total += values[p]
        pivot = tl.sum(total, 1, keep_dims=True) / N
    columns, mask = block(rows, M, 0, N, ROWS, BLOCK, VEC)
    totals = ()
    terms = TERMS(values[0], pivot)
    for i in tl.static_range(len(terms)):
        totals = totals + (tl.where(mask, terms[i], 0.0) if PIVOT and not FULL else terms[i],)  # noqa: RUF005
    for p in tl.static_range(1, PIECES):
        columns, mask = block(rows, M, p * BLOCK, N, ROWS, BLOCK, VEC)
        totals = add_terms(totals, TERMS(values[p], pivot), mask, PIVOT and not FULL)
    statistics = STATISTICS(row_sums(totals), pivot, N, eps)
    for i in tl.static_range(len(saved)):
        store(saved[i] + rows, statistics[i], rows < M, ROWS == 1)

    targets = starts(outputs, output_strides, rows, VEC)
    for p in tl.static_range(PIECES):
        columns, mask = block(rows, M, p * BLOCK, N, ROWS, BLOCK, VEC)
        if EARLY:
            results = RESULTS(values[p], statistics, as_float(weight[p]))
        else:
            one_row = block(rows, M, p * BLOCK, N, 1, BLOCK, VEC)
            results = RESULTS(values[p], statistics, as_float(load_each(weights, one_row[0], one_row[1], FULL)))
        for i in tl.static_range(len(outputs)):
            store(targets[i] + columns, results[i], mask, FULL)


@triton.jit
def slice_sums(
    sources,
    start,
    end,
    N,
    VALUE: tl.constexpr,
    TERMS: tl.constexpr,
    PIVOT: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The sums of the terms over the columns from `start` to `end` of a row, and the pivot: the mean of the row's first
    block."""
    pivot = 0.0
    if PIVOT:
        columns, mask = block(0, 1, 0, N, 1, BLOCK, VEC)
        value = VALUE(as_float(load_each(sources, columns, mask, False)))
        pivot = tl.sum(value, 1, keep_dims=True) / tl.minimum(N, BLOCK)
    columns, mask = block(0, 1, start, end, 1, BLOCK, VEC)
    terms = TERMS(VALUE(as_float(load_each(sources, columns, mask, False))), pivot)
    totals = ()
    for i in tl.static_range(len(terms)):
        totals = totals + (tl.where(mask, terms[i], 0.0),)  # noqa: RUF005
    for first in tl.range(start + BLOCK, end, BLOCK, num_stages=STAGES):
        columns, mask = block(0, 1, first, end, 1, BLOCK, VEC)
        totals = add_terms(totals, TERMS(VALUE(as_float(load_each(sources, columns, mask, False))), pivot), mask, PIVOT)
    return row_sums(totals), pivot


@triton.jit
def write_slice(
    outputs,
    sources,
    weights,
    output_strides,
    row,
    start,
    end,
    statistics,
    VALUE: tl.constexpr,
    RESULTS: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Load the columns from `start` to `end` of a row, again, and write the results."""
    targets = starts(outputs, output_strides, row, VEC)
    for first in tl.range(start, end, BLOCK, num_stages=STAGES):
        columns, mask = block(0, 1, first, end, 1, BLOCK, VEC)
        value = VALUE(as_float(load_each(sources, columns, mask, False)))
        results = RESULTS(value, statistics, as_float(load_each(weights, columns, mask, False)))
        for i in tl.static_range(len(outputs)):
            store(targets[i] + columns, results[i], mask, False)


@triton.jit(do_not_specialize=["M"])
def twice(
    outputs,
    inputs,
    weights,
    saved,
    output_strides,
    input_strides,
    M,
    N,
    eps,
    VALUE: tl.constexpr,
    TERMS: tl.constexpr,
    STATISTICS: tl.constexpr,
    RESULTS: tl.constexpr,
    PIVOT: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program per row. It reads the row twice, in blocks: for rows that registers cannot hold. Grid: M."""
    row = tl.program_id(0).to(tl.int64)
    sources = starts(inputs, input_strides, row, VEC)
    sums, pivot = slice_sums(sources, 0, N, N, VALUE, TERMS, PIVOT, BLOCK, VEC, STAGES)
    statistics = STATISTICS(sums, pivot, N, eps)
    for i in tl.static_range(len(saved)):
        tl.store(saved[i] + row + tl.zeros((1, 1), tl.int32), statistics[i])
    write_slice(outputs, sources, weights, output_strides, row, 0, N, statistics, VALUE, RESULTS, BLOCK, VEC, STAGES)


@triton.jit(do_not_specialize=["slices", "span"])
def sum_slices(
    sums,
    pivots,
    inputs,
    input_strides,
    N,
    slices,
    span,
    VALUE: tl.constexpr,
    TERMS: tl.constexpr,
    PIVOT: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program per slice of `span` columns of a row, which writes its sums to (M, slices) matrices, and the row's pivot to
    `pivots`, (M,). For rows that are too long and too few for a program each. Grid: M * slices."""
    pid = tl.program_id(0)
    row = (pid // slices).to(tl.int64)
    start = pid % slices * span
    sources = starts(inputs, input_strides, row, VEC)
    found, pivot = slice_sums(sources, start, tl.minimum(start + span, N), N, VALUE, TERMS, PIVOT, BLOCK, VEC, STAGES)
    for i in tl.static_range(len(sums)):
        tl.store(sums[i] + pid + tl.zeros((1, 1), tl.int32), found[i])
    if PIVOT:
        tl.store(pivots + row + tl.zeros((1, 1), tl.int32), pivot)


@triton.jit(do_not_specialize=["slices", "span"])
def write_slices(
    outputs,
    inputs,
    weights,
    saved,
    output_strides,
    input_strides,
    sums,
    pivots,
    N,
    eps,
    slices,
    span,
    VALUE: tl.constexpr,
    STATISTICS: tl.constexpr,
    RESULTS: tl.constexpr,
    PIVOT: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One program per slice. It adds up what `sum_slices` wrote, at most WIDTH sums, and writes the results. Grid:
    M * slices."""
    pid = tl.program_id(0)
    row = (pid // slices).to(tl.int64)
    start = pid % slices * span
    sources = starts(inputs, input_strides, row, VEC)
    members = tl.arange(0, WIDTH)[None, :]
    totals = row_sums(load_each(sums, row * slices + members, members < slices, False))
    pivot = tl.load(pivots + row) if PIVOT else 0.0
    statistics = STATISTICS(totals, pivot, N, eps)
    if pid % slices == 0:
        for i in tl.static_range(len(saved)):
            tl.store(saved[i] + row + tl.zeros((1, 1), tl.int32), statistics[i])
    end = tl.minimum(start + span, N)
    write_slice(
        outputs, sources, weights, output_strides, row, start, end, statistics, VALUE, RESULTS, BLOCK, VEC, STAGES
    )
