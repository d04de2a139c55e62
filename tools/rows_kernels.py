# mypy: ignore-errors
"""Triton kernels of rows_norms.py, which are candidates: no dispatch chooses them. Each normalises whole rows in one program;
those of `rows_team_kernels.py` share rows. `kbench/kernels/norms/forward_kernels.py` says what the arguments are.

A program may have several rows, ROWS of 1, 2 or 4, as a tuple and not as a block with two axes: they then have the layout of
the weights, which are loaded once for all. If the last rows do not exist, the last one that does is computed again.

NEAR is the most elements of a row that are neighbours in a thread. With 4 of them, a thread has 8 bytes of a row in 16 bits
beside 16 bytes of weights in float32, and the threads of a warp use all of each line. With 8, they use half of it at a time.
"""

import triton
import triton.language as tl

from kbench.kernels.norms.forward_kernels import head_mean, masked, value_in_float
from kbench.kernels.norms.tiles import (
    _INTERPRETED,
    add_pairs,
    add_terms,
    as_float,
    load_each,
    row_sums,
    starts,
    store,
    unpacked,
)
from kbench.kernels.norms.tiles import block as every_lane


@triton.jit
def block(first, N, BLOCK: tl.constexpr, VEC: tl.constexpr, NEAR: tl.constexpr):
    """The lanes of a block and a mask of those before N. The compiler sees that lanes follow each other within NEAR of them."""
    lanes = tl.arange(0, BLOCK)[None, :]
    lanes = first + (lanes // NEAR * NEAR + lanes % NEAR)
    return lanes, lanes // VEC * VEC < N


@triton.jit
def load_rows(
    inputs, strides, rows, N, VALUE: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr,
    NEAR: tl.constexpr, FULL: tl.constexpr, PACKED: tl.constexpr, POLICY: tl.constexpr, PAST: tl.constexpr = False,
):  # fmt: skip
    """For each row, a tuple with the value of every block, or with the elements of every input if they are PACKED. With PAST,
    they do not stay in the L1 cache, which has room for other things then."""
    tile = ()
    for r in tl.static_range(len(rows)):
        sources = starts(inputs, strides, rows[r], VEC)
        values = ()
        for p in tl.static_range(PIECES):
            lanes, mask = block(p * BLOCK, N, BLOCK, VEC, NEAR)
            loaded = (
                load_past_l1(sources, lanes, mask, FULL, POLICY)
                if PAST
                else load_each(sources, lanes, mask, FULL, POLICY)
            )
            values = values + (loaded if PACKED else VALUE(as_float(loaded)),)  # noqa: RUF005
        tile = tile + (values,)  # noqa: RUF005
    return tile


@triton.jit
def load_past_l1(pointers, offsets, mask, FULL: tl.constexpr, POLICY: tl.constexpr):
    loaded = ()
    for i in tl.static_range(len(pointers)):
        if FULL:
            found = tl.load(pointers[i] + offsets, cache_modifier=".cg", eviction_policy=POLICY)
        else:
            found = tl.load(pointers[i] + offsets, mask=mask, other=0.0, cache_modifier=".cg", eviction_policy=POLICY)
        loaded = loaded + (found,)  # noqa: RUF005
    return loaded


@triton.jit
def load_weights(
    weights, N, FIRST: tl.constexpr, COUNT: tl.constexpr, BLOCK: tl.constexpr, VEC: tl.constexpr, NEAR: tl.constexpr,
    FULL: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    """For COUNT blocks from block FIRST on, a tuple with the elements of every weight."""
    found = ()
    for p in tl.static_range(FIRST, FIRST + COUNT):
        lanes, mask = block(p * BLOCK, N, BLOCK, VEC, NEAR)
        found = found + (load_each(weights, lanes, mask, FULL, POLICY),)  # noqa: RUF005
    return found


@triton.jit
def add_4(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@triton.jit
def add_8(a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q):
    return a + i, b + j, c + k, d + m, e + n, f + o, g + p, h + q


@triton.jit
def all_sums(totals):
    """The sum of each of 1, 2, 4 or 8 blocks, as numbers. They are summed together, which takes one exchange between warps."""
    COUNT: tl.constexpr = len(totals)
    SIZE: tl.constexpr = totals[0].numel
    flat = ()
    for i in tl.static_range(COUNT):
        flat = flat + (tl.reshape(totals[i], [SIZE]),)  # noqa: RUF005
    if COUNT == 2 and not _INTERPRETED:
        return tl.reduce(flat, 0, add_pairs)
    elif COUNT == 4 and not _INTERPRETED:
        return tl.reduce(flat, 0, add_4)
    elif COUNT == 8 and not _INTERPRETED:
        return tl.reduce(flat, 0, add_8)
    else:
        sums = ()
        for i in tl.static_range(COUNT):
            sums = sums + (tl.sum(flat[i], 0),)  # noqa: RUF005
        return sums


@triton.jit
def value_again(value, VALUE: tl.constexpr, PACKED: tl.constexpr):
    """The value of a row, for a second use. With PACKED, it is converted anew."""
    return VALUE(unpacked(value, True)) if PACKED else value


@triton.jit
def sums_of_tile(
    tile, N, TERMS: tl.constexpr, VALUE: tl.constexpr, PIVOT: tl.constexpr, PACKED: tl.constexpr,
    BLOCK: tl.constexpr, VEC: tl.constexpr, NEAR: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    """The sums of the terms of every row, one row after the other, and the pivots, their means. Elements outside are 0."""
    pivots = ()
    if PIVOT:
        totals = ()
        for r in tl.static_range(len(tile)):
            total = value_in_float(tile[r][0], VALUE, PACKED)
            for p in tl.static_range(1, len(tile[r])):
                total += value_in_float(tile[r][p], VALUE, PACKED)
            totals = totals + (total,)  # noqa: RUF005
        sums = all_sums(totals)
        for r in tl.static_range(len(tile)):
            pivots = pivots + (sums[r] / N,)  # noqa: RUF005
    else:
        for _ in tl.static_range(len(tile)):
            pivots = pivots + (0.0,)  # noqa: RUF005
    totals = ()
    for r in tl.static_range(len(tile)):
        row = ()
        for p in tl.static_range(len(tile[r])):
            _, mask = block(p * BLOCK, N, BLOCK, VEC, NEAR)
            value = value_again(tile[r][p], VALUE, PACKED) if PIVOT else value_in_float(tile[r][p], VALUE, PACKED)
            terms = masked(TERMS(value, pivots[r]), mask, PIVOT and not FULL)
            row = terms if p == 0 else add_terms(row, terms, mask, False)
        totals = totals + row
    return all_sums(totals), pivots


@triton.jit
def write_rows(
    outputs, saved, strides, tile, rows, weights, kept, sums, pivots, N, eps,
    VALUE: tl.constexpr, STATISTICS: tl.constexpr, RESULTS: tl.constexpr, BLOCK: tl.constexpr, VEC: tl.constexpr,
    NEAR: tl.constexpr, FULL: tl.constexpr, PACKED: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    """Write rows whose values are in registers. `kept` are the weights of the first blocks, and those of each other block are
    loaded len(kept) blocks before it is written."""
    EARLY: tl.constexpr = len(kept)
    COUNT: tl.constexpr = len(sums) // len(rows)
    found = ()
    for r in tl.static_range(len(rows)):
        own = (sums[r * COUNT],) if COUNT == 1 else (sums[r * COUNT], sums[r * COUNT + 1])
        statistics = STATISTICS(own, pivots[r], N, eps)
        for i in tl.static_range(len(saved)):
            tl.store(saved[i] + rows[r], statistics[i])
        found = found + (statistics,)  # noqa: RUF005
    for p in tl.static_range(len(tile[0])):
        if p + EARLY < len(tile[0]):
            kept = kept + load_weights(weights, N, p + EARLY, 1, BLOCK, VEC, NEAR, FULL, POLICY)
        lanes, mask = block(p * BLOCK, N, BLOCK, VEC, NEAR)
        for r in tl.static_range(len(rows)):
            results = RESULTS(value_again(tile[r][p], VALUE, PACKED), found[r], as_float(kept[p]))
            targets = starts(outputs, strides, rows[r], VEC)
            for i in tl.static_range(len(outputs)):
                store(targets[i] + lanes, results[i], mask, FULL)


@triton.jit
def rows_of(tile, M, ROWS: tl.constexpr):
    rows = ()
    for r in tl.static_range(ROWS):
        row = tl.cast(tile, tl.int64) * ROWS + r
        rows = rows + (row if ROWS == 1 else tl.minimum(row, M - 1),)  # noqa: RUF005
    return rows


@triton.jit(do_not_specialize=["M"])
def held(
    outputs, inputs, weights, saved, output_strides, input_strides, M, N, eps,
    VALUE: tl.constexpr, TERMS: tl.constexpr, STATISTICS: tl.constexpr, RESULTS: tl.constexpr, PIVOT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr, NEAR: tl.constexpr,
    FULL: tl.constexpr, EARLY: tl.constexpr, PACKED: tl.constexpr, POLICY: tl.constexpr, PAST: tl.constexpr,
):  # fmt: skip
    """ROWS rows per program in registers, as in `registers`, but the pivot is the mean. EARLY and POLICY are those of
    `registers`. With PAST, rows do not stay in the L1 cache. Grid: M / ROWS, rounded up."""
    rows = rows_of(tl.program_id(0), M, ROWS)
    tile = load_rows(inputs, input_strides, rows, N, VALUE, BLOCK, PIECES, VEC, NEAR, FULL, PACKED, POLICY, PAST)
    kept = load_weights(weights, N, 0, EARLY, BLOCK, VEC, NEAR, FULL, POLICY)
    sums, pivots = sums_of_tile(tile, N, TERMS, VALUE, PIVOT, PACKED, BLOCK, VEC, NEAR, FULL)
    write_rows(
        outputs, saved, output_strides, tile, rows, weights, kept, sums, pivots, N, eps,
        VALUE, STATISTICS, RESULTS, BLOCK, VEC, NEAR, FULL, PACKED, POLICY,
    )  # fmt: skip


@triton.jit(do_not_specialize=["M", "tiles"])
def in_turn(
    outputs, inputs, weights, saved, output_strides, input_strides, M, N, eps, tiles,
    VALUE: tl.constexpr, TERMS: tl.constexpr, STATISTICS: tl.constexpr, RESULTS: tl.constexpr, PIVOT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr, NEAR: tl.constexpr,
    FULL: tl.constexpr, PACKED: tl.constexpr, POLICY: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Programs that stay and take every n-th tile of ROWS rows. The weights stay in registers, so a program loads them once.
    STAGES - 1 tiles are on the way to shared memory. Grid: any."""
    kept = load_weights(weights, N, 0, PIECES, BLOCK, VEC, NEAR, FULL, POLICY)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), num_stages=STAGES):
        rows = rows_of(number, M, ROWS)
        tile = load_rows(inputs, input_strides, rows, N, VALUE, BLOCK, PIECES, VEC, NEAR, FULL, PACKED, POLICY)
        sums, pivots = sums_of_tile(tile, N, TERMS, VALUE, PIVOT, PACKED, BLOCK, VEC, NEAR, FULL)
        write_rows(
            outputs, saved, output_strides, tile, rows, weights, kept, sums, pivots, N, eps,
            VALUE, STATISTICS, RESULTS, BLOCK, VEC, NEAR, FULL, PACKED, POLICY,
        )  # fmt: skip


@triton.jit(do_not_specialize=["M"])
def twice_unrolled(
    outputs, inputs, weights, saved, output_strides, input_strides, M, N, eps,
    VALUE: tl.constexpr, TERMS: tl.constexpr, STATISTICS: tl.constexpr, RESULTS: tl.constexpr, PIVOT: tl.constexpr,
    BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr, FULL: tl.constexpr,
    FIRST: tl.constexpr, SECOND: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    """`twice`, with the number of blocks known when it is compiled, so that all loads of the first time are on the way at once.
    FIRST, SECOND and POLICY are the hints for the two times that it reads the row, and for the weights. Grid: M."""
    from_head = tl.program_id(0).to(tl.int64)
    row = from_head + tl.zeros((1, 1), tl.int32)
    sources = starts(inputs, input_strides, row, VEC)
    pivot = head_mean(starts(inputs, input_strides, from_head, VEC), N, VALUE) if PIVOT else 0.0
    totals = ()
    for p in tl.static_range(PIECES):
        columns, mask = every_lane(row, M, p * BLOCK, N, 1, BLOCK, VEC)
        value = VALUE(as_float(load_each(sources, columns, mask, FULL, FIRST)))
        terms = masked(TERMS(value, pivot), mask, PIVOT and not FULL)
        totals = terms if p == 0 else add_terms(totals, terms, mask, False)
    statistics = STATISTICS(row_sums(totals), pivot, N, eps)
    for i in tl.static_range(len(saved)):
        tl.store(saved[i] + row, statistics[i])
    targets = starts(outputs, output_strides, row, VEC)
    for p in tl.static_range(PIECES):
        columns, mask = every_lane(row, M, p * BLOCK, N, 1, BLOCK, VEC)
        value = VALUE(as_float(load_each(sources, columns, mask, FULL, SECOND)))
        results = RESULTS(value, statistics, as_float(load_each(weights, columns, mask, FULL, POLICY)))
        for i in tl.static_range(len(outputs)):
            store(targets[i] + columns, results[i], mask, FULL)
