# mypy: ignore-errors
"""A Triton kernel that normalises long rows in teams of programs. A team shares a row, and takes one row after another, so a
program loads its part of the weights once. `forward_kernels.py` says what the functions of an operator and the arguments are,
and `exchange.py` how a team exchanges sums. `shared_rows.py` does the same for the gradients.
"""

import triton
import triton.language as tl

from kbench.kernels.norms.exchange import awaited, next_mark, publish
from kbench.kernels.norms.forward_kernels import masked, value_in_float
from kbench.kernels.norms.tiles import add_terms, as_float, block, load_each, starts, store, sums_of_one_row, unpacked


@triton.jit
def load_part(
    inputs, strides, row, start, end, VALUE: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr,
    VEC: tl.constexpr, FULL: tl.constexpr, POLICY: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """A program's part of a row, for each block a value, or a tuple with the elements of every input if they are PACKED."""
    sources = starts(inputs, strides, tl.cast(row, tl.int64) + tl.zeros((1, 1), tl.int64), VEC)
    values = ()
    for p in tl.static_range(PIECES):
        lanes, mask = block(0, 1, start + p * BLOCK, end, 1, BLOCK, VEC)
        loaded = load_each(sources, lanes, mask, FULL, POLICY)
        values = values + (loaded if PACKED else VALUE(as_float(loaded)),)  # noqa: RUF005
    return values


@triton.jit
def sums_of_part(
    values, start, end, VALUE: tl.constexpr, TERMS: tl.constexpr, PIVOT: tl.constexpr, BLOCK: tl.constexpr,
    VEC: tl.constexpr, FULL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """What a program publishes: the sums of the terms. With PIVOT, the mean of this part, and the sum of the squares of the
    distances from it."""
    pivot = 0.0
    if PIVOT:
        total = value_in_float(values[0], VALUE, PACKED)
        for p in tl.static_range(1, len(values)):
            total += value_in_float(values[p], VALUE, PACKED)
        pivot = sums_of_one_row((total,))[0] / (end - start)
    totals = ()
    for p in tl.static_range(len(values)):
        _, mask = block(0, 1, start + p * BLOCK, end, 1, BLOCK, VEC)
        terms = masked(TERMS(value_in_float(values[p], VALUE, PACKED), pivot), mask, PIVOT and not FULL)
        if PIVOT:
            terms = (terms[1],)
        totals = terms if p == 0 else add_terms(totals, terms, mask, False)
    sums = sums_of_one_row(totals)
    return (pivot, sums[0]) if PIVOT else sums


@triton.jit
def words_of_team(words, slices, mark, WIDTH: tl.constexpr, PTX: tl.constexpr):
    """The two float32 numbers of each word of a team, 0 if it does not exist, and which member it is of. They are in blocks of
    32: every warp has one on its own, and no exchange between warps is necessary. It waits for all of them."""
    found = ()
    for first in tl.static_range(0, WIDTH, 32):
        members = first + tl.arange(0, 32)
        wanted = members < slices
        pairs = awaited(words + members, wanted, mark, PTX)
        last = tl.where(wanted, (pairs.to(tl.int32) & -2).to(tl.float32, bitcast=True), 0.0)
        other = tl.where(wanted, (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True), 0.0)
        found = found + ((other, last, members),)  # noqa: RUF005
    return found


@triton.jit
def sums_of_team(words, slices, span, N, mark, PIVOT: tl.constexpr, WIDTH: tl.constexpr, PTX: tl.constexpr):
    """The sums of the terms of the whole row, and their pivot, its mean. The parts are combined as Chan, Golub and LeVeque do:
    no digits are lost if the mean is large."""
    found = words_of_team(words, slices, mark, WIDTH, PTX)
    if PIVOT:
        total = tl.zeros((32,), tl.float32)
        for i in tl.static_range(len(found)):
            means, _, members = found[i]
            total += means * tl.minimum(span, N - members * span).to(tl.float32)
        mean = tl.sum(total, 0) / N
        total = tl.zeros((32,), tl.float32)
        for i in tl.static_range(len(found)):
            means, squares, members = found[i]
            apart = means - mean
            counts = tl.minimum(span, tl.maximum(N - members * span, 0)).to(tl.float32)
            total += squares + apart * apart * counts
        return (0.0, tl.sum(total, 0)), mean
    else:
        total = found[0][1]
        for i in tl.static_range(1, len(found)):
            total += found[i][1]
        return (tl.sum(total, 0),), 0.0


@triton.jit
def write_part(
    outputs, saved, strides, values, kept, sums, pivot, row, start, end, N, eps,
    VALUE: tl.constexpr, STATISTICS: tl.constexpr, RESULTS: tl.constexpr, BLOCK: tl.constexpr, VEC: tl.constexpr,
    FULL: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    statistics = STATISTICS(sums, pivot, N, eps)
    targets = starts(outputs, strides, tl.cast(row, tl.int64) + tl.zeros((1, 1), tl.int64), VEC)
    for p in tl.static_range(len(values)):
        lanes, mask = block(0, 1, start + p * BLOCK, end, 1, BLOCK, VEC)
        value = VALUE(unpacked(values[p], True)) if PACKED else values[p]
        results = RESULTS(value, statistics, as_float(kept[p]))
        for i in tl.static_range(len(outputs)):
            store(targets[i] + lanes, results[i], mask, FULL)
    for i in tl.static_range(len(saved)):  # last: earlier, layernorm in float32 would spill
        tl.store(saved[i] + row, statistics[i], mask=start == 0)


@triton.jit(do_not_specialize=["M", "slices", "span"])
def teams_in_turn(
    outputs, inputs, weights, saved, output_strides, input_strides, M, N, eps, words, slices, span,
    VALUE: tl.constexpr, TERMS: tl.constexpr, STATISTICS: tl.constexpr, RESULTS: tl.constexpr, PIVOT: tl.constexpr,
    BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr, FULL: tl.constexpr, PACKED: tl.constexpr,
    POLICY: tl.constexpr, STAGES: tl.constexpr, PTX: tl.constexpr, WIDTH: tl.constexpr, PHASE: tl.constexpr,
):  # fmt: skip
    """Each team of `slices` programs, at most WIDTH, takes every n-th row. A program has the same `span` columns of all its
    rows, in PIECES blocks of BLOCK. Its part of the weights stays in registers. STAGES - 1 rows are on the way to shared
    memory. PTX is that of `awaited`. Grid: teams * slices, all on the device at once, or they would wait forever.

    A program publishes the sums of a row before it waits for those of the row before, so it writes a row one turn after it
    reduced it.
    """
    part = tl.program_id(0) % slices
    team = tl.program_id(0) // slices
    teams = tl.num_programs(0) // slices
    start = part * span // VEC * VEC
    end = tl.minimum(part * span + span, N)
    kept = ()
    for p in tl.static_range(PIECES):
        lanes, mask = block(0, 1, start + p * BLOCK, end, 1, BLOCK, VEC)
        kept = kept + (load_each(weights, lanes, mask, FULL),)  # noqa: RUF005
    words += 16

    before = load_part(inputs, input_strides, team, start, end, VALUE, BLOCK, PIECES, VEC, FULL, POLICY, PACKED)
    following = tl.minimum(team + teams, M - 1)
    mark = next_mark(words + tl.cast(team, tl.int64) * slices + part, PHASE)
    mark_ahead = next_mark(words + tl.cast(following, tl.int64) * slices + part, PHASE)
    sums = sums_of_part(before, start, end, VALUE, TERMS, PIVOT, BLOCK, VEC, FULL, PACKED)
    if PHASE != 2:
        publish(words + tl.cast(team, tl.int64) * slices + part, sums, mark)
    for row in tl.range(team + teams, M, teams, num_stages=STAGES):
        following = tl.minimum(row + teams, M - 1)
        here = load_part(inputs, input_strides, row, start, end, VALUE, BLOCK, PIECES, VEC, FULL, POLICY, PACKED)
        # a new value: the compiler does not load ahead in loops that pass a value on unchanged
        new_mark = mark_ahead & 1
        mark_ahead = next_mark(words + tl.cast(following, tl.int64) * slices + part, PHASE)
        sums = sums_of_part(here, start, end, VALUE, TERMS, PIVOT, BLOCK, VEC, FULL, PACKED)
        if PHASE != 2:
            publish(words + tl.cast(row, tl.int64) * slices + part, sums, new_mark)
        if PHASE != 1:
            own = tl.cast(row - teams, tl.int64)
            total, pivot = sums_of_team(words + own * slices, slices, span, N, mark, PIVOT, WIDTH, PTX)
            write_part(
                outputs, saved, output_strides, before, kept, total, pivot, own, start, end, N, eps,
                VALUE, STATISTICS, RESULTS, BLOCK, VEC, FULL, PACKED,
            )  # fmt: skip
        before = here
        mark = new_mark
    if PHASE != 1:
        own = tl.cast(team + (M - 1 - team) // teams * teams, tl.int64)
        total, pivot = sums_of_team(words + own * slices, slices, span, N, mark, PIVOT, WIDTH, PTX)
        write_part(
            outputs, saved, output_strides, before, kept, total, pivot, own, start, end, N, eps,
            VALUE, STATISTICS, RESULTS, BLOCK, VEC, FULL, PACKED,
        )  # fmt: skip
