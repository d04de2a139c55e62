# mypy: ignore-errors
"""Triton kernels that normalise the rows of a matrix. An operator gives its mathematics as functions:

VALUE       what a row is made of: takes a tuple with an element of each input
TERMS       what is summed over a row: takes the value and a pivot, returns a tuple
STATISTICS  what the sums say of the row: takes the sums, the pivot, N and eps, returns a tuple
RESULTS     what is written: takes the value, the statistics and a tuple with an element of each weight, returns a tuple

With PIVOT, terms are differences from a pivot, the mean of a row or of its head, so that a large offset does not cancel.
All compute in float32. `inputs`, `outputs`, `weights` and `saved` are tuples of pointers: to (M, N) matrices whose rows are
`input_strides` and `output_strides` elements apart, to (N,) vectors, and to (M,) vectors of float32 for the statistics, or ().

Rows begin at multiples of VEC elements and consist of whole vectors of VEC elements. With FULL, blocks have no element outside
of the matrix. With WINDOW, rows begin anywhere: blocks have the whole vectors of a row, and the elements outside of them, its
ends, are moved one by one (`triton_rows.py`).
"""

import triton
import triton.language as tl

from kbench.kernels.norms.exchange import gather, next_mark, publish, ticket
from kbench.kernels.norms.tiles import (
    add_terms,
    as_float,
    block,
    head_of,
    load_each,
    row_sums,
    starts,
    store,
    sums_of_one_row,
    unpacked,
)
from kbench.kernels.triton_rows import row_edges

LANES = tl.constexpr(32)
HEAD = tl.constexpr(128)


@triton.jit
def head_mean(sources, N, VALUE: tl.constexpr):
    """The mean of the first HEAD elements of one row, or of all if there are fewer. It is a number, which every warp computes
    by itself. With this pivot, rounding errors grow by a factor of at most N / HEAD, if all the variance lies between these
    elements and the others."""
    lanes = tl.arange(0, LANES)
    total = tl.zeros((LANES,), tl.float32)
    for p in tl.static_range(HEAD // LANES):
        total += VALUE(as_float(load_each(sources, p * LANES + lanes, p * LANES + lanes < N, False)))
    return tl.sum(total, 0) / tl.minimum(N, HEAD)


@triton.jit
def masked(terms, mask, MASKED: tl.constexpr):
    """The terms, or 0 outside of the mask."""
    kept = ()
    for i in tl.static_range(len(terms)):
        kept = kept + (tl.where(mask, terms[i], 0.0) if MASKED else terms[i],)  # noqa: RUF005
    return kept


@triton.jit
def value_in_float(value, VALUE: tl.constexpr, PACKED: tl.constexpr):
    """The value of a row. With PACKED, from its inputs."""
    return VALUE(as_float(value)) if PACKED else value


@triton.jit(do_not_specialize=["M", "slices", "span"])
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
    words,
    slices,
    span,
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
    WINDOW: tl.constexpr,
    EARLY: tl.constexpr,
    PACKED: tl.constexpr,
    WIDTH: tl.constexpr,
    TICKETS: tl.constexpr,
    PHASE: tl.constexpr,
    POLICY: tl.constexpr,
):
    """ROWS rows per program, each in PIECES blocks of BLOCK columns, which stay in registers. Grid: M / ROWS, rounded up.

    Weights of the first EARLY blocks are loaded before the rows are reduced, and those of each other block EARLY blocks before
    it is written. With 0, they are loaded when they are needed. POLICY is the `eviction_policy` of these loads.

    With WIDTH > 1, `slices` programs, at most WIDTH, share a row, and each has `span` columns of it; see `exchange.py`. Grid:
    M * slices.
    """
    pid = tl.program_id(0)
    start = 0
    end = N
    if WIDTH > 1:
        if TICKETS:
            pid = ticket(words)
        part = pid % slices
        start = part * span // VEC * VEC
        end = tl.minimum(start + span, N)
        pid = pid // slices
    rows = pid.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    head = head_of(pid.to(tl.int64), input_strides[0], VEC, WINDOW)
    if WINDOW:
        end = tl.minimum(start + span, N + head - (VEC - 1)) if WIDTH > 1 else N + head - (VEC - 1)
    sources = starts(inputs, input_strides, rows, VEC, WINDOW)
    values = ()
    for p in tl.static_range(PIECES):
        lanes, mask = block(rows, M, start + p * BLOCK, end, ROWS, BLOCK, VEC, head, WINDOW)
        loaded = load_each(sources, lanes, mask, FULL, POLICY)
        values = values + (loaded if PACKED else VALUE(as_float(loaded)),)  # noqa: RUF005
    early = ()
    for p in tl.static_range(EARLY):
        one_row = block(0, 1, start + p * BLOCK, end, 1, BLOCK, VEC, head, WINDOW)
        early = early + (load_each(weights, one_row[0] - head, one_row[1], FULL, POLICY),)  # noqa: RUF005
    first_elements = starts(inputs, input_strides, pid.to(tl.int64), 1 if WINDOW else VEC)
    if WINDOW:
        ends, at_end = row_edges(pid.to(tl.int64) * input_strides[0], N, VEC)
        at_end = at_end & (start == 0)
        value_at_ends = VALUE(as_float(load_each(first_elements, ends, at_end, False)))
        weight_at_ends = load_each(weights, ends, at_end, False)
    if WIDTH > 1:
        words += 16 + pid.to(tl.int64) * slices
        own = words + part
        mark = next_mark(own, PHASE)

    pivot = 0.0
    if PIVOT:
        if ROWS == 1:
            pivot = head_mean(first_elements, N, VALUE)
        else:
            total = value_in_float(values[0], VALUE, PACKED)
            for p in tl.static_range(1, PIECES):
                total += value_in_float(values[p], VALUE, PACKED)
            pivot = tl.sum(total, 1, keep_dims=True) / N
    totals = ()
    for p in tl.static_range(PIECES):
        lanes, mask = block(rows, M, start + p * BLOCK, end, ROWS, BLOCK, VEC, head, WINDOW)
        terms = masked(TERMS(value_in_float(values[p], VALUE, PACKED), pivot), mask, PIVOT and not FULL)
        totals = terms if p == 0 else add_terms(totals, terms, mask, False)
    sums = sums_of_one_row(totals) if WINDOW or WIDTH > 1 else row_sums(totals)
    if WINDOW:
        terms_at_ends = masked(TERMS(value_at_ends, pivot), at_end, PIVOT)
        sums = add_terms(sums, sums_of_one_row(terms_at_ends), True, False)
    if WIDTH > 1:
        if PHASE != 2:
            publish(own, sums, mark)
        if PHASE != 1:
            sums = gather(words, slices, mark, len(sums), WIDTH)
    if PHASE != 1:
        statistics = STATISTICS(sums, pivot, N, eps)
        for i in tl.static_range(len(saved)):
            tl.store(saved[i] + rows, statistics[i], mask=(rows < M) & (start == 0))
        targets = starts(outputs, output_strides, rows, VEC, WINDOW)
        for p in tl.static_range(PIECES):
            lanes, mask = block(rows, M, start + p * BLOCK, end, ROWS, BLOCK, VEC, head, WINDOW)
            if p + EARLY < PIECES:
                one_row = block(0, 1, start + (p + EARLY) * BLOCK, end, 1, BLOCK, VEC, head, WINDOW)
                early = early + (load_each(weights, one_row[0] - head, one_row[1], FULL, POLICY),)  # noqa: RUF005
            value = VALUE(unpacked(values[p], True)) if PACKED else values[p]
            results = RESULTS(value, statistics, unpacked(early[p], PACKED))
            for i in tl.static_range(len(outputs)):
                store(targets[i] + lanes, results[i], mask, FULL)
        if WINDOW:
            results = RESULTS(value_at_ends, statistics, as_float(weight_at_ends))
            targets = starts(outputs, output_strides, pid.to(tl.int64), 1)
            for i in tl.static_range(len(outputs)):
                tl.store(targets[i] + ends, results[i], mask=at_end)


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
    FULL: tl.constexpr,
    STAGES: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
):
    """One program per row. It holds nothing of the row, and reads it twice, in blocks. Grid: M.

    FIRST and SECOND are the `eviction_policy` of the two times that it reads the row. With FULL, N is a multiple of BLOCK.
    """
    row = tl.program_id(0).to(tl.int64) + tl.zeros((1, 1), tl.int32)
    sources = starts(inputs, input_strides, row, VEC)
    pivot = head_mean(starts(inputs, input_strides, tl.program_id(0).to(tl.int64), VEC), N, VALUE) if PIVOT else 0.0
    columns, mask = block(row, M, 0, N, 1, BLOCK, VEC)
    value = VALUE(as_float(load_each(sources, columns, mask, FULL, FIRST)))
    totals = masked(TERMS(value, pivot), mask, PIVOT and not FULL)
    for first in tl.range(BLOCK, N, BLOCK, num_stages=STAGES):
        columns, mask = block(row, M, first, N, 1, BLOCK, VEC)
        value = VALUE(as_float(load_each(sources, columns, mask, FULL, FIRST)))
        totals = add_terms(totals, TERMS(value, pivot), mask, PIVOT and not FULL)
    statistics = STATISTICS(row_sums(totals), pivot, N, eps)
    for i in tl.static_range(len(saved)):
        tl.store(saved[i] + row, statistics[i])
    targets = starts(outputs, output_strides, row, VEC)
    for first in tl.range(0, N, BLOCK, num_stages=STAGES):
        columns, mask = block(row, M, first, N, 1, BLOCK, VEC)
        value = VALUE(as_float(load_each(sources, columns, mask, FULL, SECOND)))
        results = RESULTS(value, statistics, as_float(load_each(weights, columns, mask, FULL)))
        for i in tl.static_range(len(outputs)):
            store(targets[i] + columns, results[i], mask, FULL)


@triton.jit(do_not_specialize=["M"])
def twice_unrolled(
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
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    POLICY: tl.constexpr,
):
    """`twice` for rows of PIECES blocks: all loads of the first time are on the way at once. POLICY is the `eviction_policy`
    of the loads of weights. Grid: M."""
    from_head = tl.program_id(0).to(tl.int64)
    row = from_head + tl.zeros((1, 1), tl.int32)
    sources = starts(inputs, input_strides, row, VEC)
    pivot = head_mean(starts(inputs, input_strides, from_head, VEC), N, VALUE) if PIVOT else 0.0
    totals = ()
    for p in tl.static_range(PIECES):
        columns, mask = block(row, M, p * BLOCK, N, 1, BLOCK, VEC)
        value = VALUE(as_float(load_each(sources, columns, mask, FULL, FIRST)))
        terms = masked(TERMS(value, pivot), mask, PIVOT and not FULL)
        totals = terms if p == 0 else add_terms(totals, terms, mask, False)
    statistics = STATISTICS(row_sums(totals), pivot, N, eps)
    for i in tl.static_range(len(saved)):
        tl.store(saved[i] + row, statistics[i])
    targets = starts(outputs, output_strides, row, VEC)
    for p in tl.static_range(PIECES):
        columns, mask = block(row, M, p * BLOCK, N, 1, BLOCK, VEC)
        value = VALUE(as_float(load_each(sources, columns, mask, FULL, SECOND)))
        results = RESULTS(value, statistics, as_float(load_each(weights, columns, mask, FULL, POLICY)))
        for i in tl.static_range(len(outputs)):
            store(targets[i] + columns, results[i], mask, FULL)
