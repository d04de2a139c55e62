# mypy: ignore-errors
"""A Triton kernel that normalises rows of 16 bits beside weights in float32. `forward_kernels.py` says what the functions of an
operator and the arguments are.

A program has one or two rows, as a tuple and not as a block with two axes: they then have the layout of the weights, which are
loaded once for both. If the second row does not exist, the first one is computed twice.

ACCESS is how many neighbouring elements a thread loads at a time. With 4, it loads 8 bytes of a row and 16 bytes of a weight,
and the threads of a warp use all of each line. With 8, which the compiler would choose, they use half of each line of a weight.
"""

import triton
import triton.language as tl

from kbench.kernels.norms.forward_kernels import masked, value_in_float
from kbench.kernels.norms.tiles import _INTERPRETED, add_pairs, add_terms, as_float, load_each, starts, store, unpacked


@triton.jit
def lanes_of_block(first, N, BLOCK: tl.constexpr, VEC: tl.constexpr, ACCESS: tl.constexpr):
    """The lanes of a block and a mask of those before N. The compiler sees that ACCESS lanes follow each other, and no more."""
    lanes = tl.arange(0, BLOCK)[None, :]
    lanes = first + (lanes // ACCESS * ACCESS + lanes % ACCESS)
    return lanes, lanes // VEC * VEC < N


@triton.jit
def load_rows(
    inputs, strides, rows, N, VALUE: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr,
    ACCESS: tl.constexpr, FULL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """For each row, a tuple with the value of every block, or with the elements of every input if they are PACKED."""
    tile = ()
    for r in tl.static_range(len(rows)):
        sources = starts(inputs, strides, rows[r], VEC)
        values = ()
        for p in tl.static_range(PIECES):
            lanes, mask = lanes_of_block(p * BLOCK, N, BLOCK, VEC, ACCESS)
            loaded = load_each(sources, lanes, mask, FULL)
            values = values + (loaded if PACKED else VALUE(as_float(loaded)),)  # noqa: RUF005
        tile = tile + (values,)  # noqa: RUF005
    return tile


@triton.jit
def load_weights(
    weights, N, p: tl.constexpr, BLOCK: tl.constexpr, VEC: tl.constexpr, ACCESS: tl.constexpr, FULL: tl.constexpr
):  # fmt: skip
    """The elements of every weight in block p."""
    lanes, mask = lanes_of_block(p * BLOCK, N, BLOCK, VEC, ACCESS)
    return load_each(weights, lanes, mask, FULL)


@triton.jit
def add_4(a, b, c, d, e, f, g, h):
    return a + e, b + f, c + g, d + h


@triton.jit
def all_sums(totals):
    """The sum of each of 1, 2 or 4 blocks, as numbers. They are summed together, which takes one exchange between warps."""
    COUNT: tl.constexpr = len(totals)
    SIZE: tl.constexpr = totals[0].numel
    flat = ()
    for i in tl.static_range(COUNT):
        flat = flat + (tl.reshape(totals[i], [SIZE]),)  # noqa: RUF005
    if COUNT == 2 and not _INTERPRETED:
        return tl.reduce(flat, 0, add_pairs)
    elif COUNT == 4 and not _INTERPRETED:
        return tl.reduce(flat, 0, add_4)
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
    BLOCK: tl.constexpr, VEC: tl.constexpr, ACCESS: tl.constexpr, FULL: tl.constexpr,
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
            _, mask = lanes_of_block(p * BLOCK, N, BLOCK, VEC, ACCESS)
            value = value_again(tile[r][p], VALUE, PACKED) if PIVOT else value_in_float(tile[r][p], VALUE, PACKED)
            terms = masked(TERMS(value, pivots[r]), mask, PIVOT and not FULL)
            row = terms if p == 0 else add_terms(row, terms, mask, False)
        totals = totals + row
    return all_sums(totals), pivots


@triton.jit
def write_rows(
    outputs, saved, strides, tile, rows, weights, following, sums, pivots, N, eps,
    VALUE: tl.constexpr, STATISTICS: tl.constexpr, RESULTS: tl.constexpr, BLOCK: tl.constexpr, VEC: tl.constexpr,
    ACCESS: tl.constexpr, FULL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Write rows whose values are in registers. `following` are the weights of the first block. Those of each other block are
    loaded one block before it is written."""
    COUNT: tl.constexpr = len(sums) // len(rows)
    found = ()
    for r in tl.static_range(len(rows)):
        own = (sums[r * COUNT],) if COUNT == 1 else (sums[r * COUNT], sums[r * COUNT + 1])
        statistics = STATISTICS(own, pivots[r], N, eps)
        for i in tl.static_range(len(saved)):
            tl.store(saved[i] + rows[r], statistics[i])
        found = found + (statistics,)  # noqa: RUF005
    for p in tl.static_range(len(tile[0])):
        here = following
        if p + 1 < len(tile[0]):
            following = load_weights(weights, N, p + 1, BLOCK, VEC, ACCESS, FULL)
        lanes, mask = lanes_of_block(p * BLOCK, N, BLOCK, VEC, ACCESS)
        for r in tl.static_range(len(rows)):
            results = RESULTS(value_again(tile[r][p], VALUE, PACKED), found[r], as_float(here))
            targets = starts(outputs, strides, rows[r], VEC)
            for i in tl.static_range(len(outputs)):
                store(targets[i] + lanes, results[i], mask, FULL)


@triton.jit
def tile_of_rows(tile, M, ROWS: tl.constexpr):
    rows = ()
    for r in tl.static_range(ROWS):
        row = tl.cast(tile, tl.int64) * ROWS + r
        rows = rows + (row if ROWS == 1 else tl.minimum(row, M - 1),)  # noqa: RUF005
    return rows


@triton.jit(do_not_specialize=["M"])
def beside_wide_weights(
    outputs, inputs, weights, saved, output_strides, input_strides, M, N, eps,
    VALUE: tl.constexpr, TERMS: tl.constexpr, STATISTICS: tl.constexpr, RESULTS: tl.constexpr, PIVOT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr, ACCESS: tl.constexpr,
    FULL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """ROWS rows per program, 1 or 2, which stay in registers. The pivot of a row is its mean. Weights of the first block are
    loaded before the rows are reduced. Grid: M / ROWS, rounded up."""
    rows = tile_of_rows(tl.program_id(0), M, ROWS)
    tile = load_rows(inputs, input_strides, rows, N, VALUE, BLOCK, PIECES, VEC, ACCESS, FULL, PACKED)
    first_weights = load_weights(weights, N, 0, BLOCK, VEC, ACCESS, FULL)
    sums, pivots = sums_of_tile(tile, N, TERMS, VALUE, PIVOT, PACKED, BLOCK, VEC, ACCESS, FULL)
    write_rows(
        outputs, saved, output_strides, tile, rows, weights, first_weights, sums, pivots, N, eps,
        VALUE, STATISTICS, RESULTS, BLOCK, VEC, ACCESS, FULL, PACKED,
    )  # fmt: skip
