# mypy: ignore-errors
"""A Triton kernel for the gradients of a normalisation of long rows, which are shared by the programs of a team.
`backward_kernels.py` says what the functions of an operator and the arguments are, and `exchange.py` how a team exchanges sums.

With PAIRS of 2, 16-bit elements are loaded two to a word, and a word stays in one register from one turn of the loop to the
next. Elements would take a register each. The two elements of a word are computed as two pieces of the row.
"""

import triton
import triton.language as tl
from triton.language.extra import cuda

from kbench.kernels.norms.backward_kernels import no_totals, sum_row_terms
from kbench.kernels.norms.exchange import gather, next_mark, publish
from kbench.kernels.norms.tiles import block, load, load_each, store


@triton.jit
def first_word(matrix, row, stride, VEC: tl.constexpr, PAIRS: tl.constexpr):
    """A pointer to the first word of a row."""
    if PAIRS == 2:
        matrix = matrix.to(tl.pointer_type(tl.int32), bitcast=True)
    return matrix + row * (stride // VEC * (VEC // PAIRS))


@triton.jit
def blocks(start, end, BLOCK: tl.constexpr, PIECES: tl.constexpr, VEC: tl.constexpr, PAIRS: tl.constexpr):
    """For each block of a row, its words and a mask of those before `end`."""
    found = ()
    for p in tl.static_range(PIECES):
        found = found + (block(0, 1, start + p * (BLOCK // PAIRS), end, 1, BLOCK // PAIRS, VEC // PAIRS),)  # noqa: RUF005
    return found


@triton.jit
def load_row(inputs, strides, row, places, VEC: tl.constexpr, PAIRS: tl.constexpr, FULL: tl.constexpr):
    """For each block of a row, a tuple with its words of every input."""
    found = ()
    for p in tl.static_range(len(places)):
        loaded = ()
        for i in tl.static_range(len(inputs)):
            pointers = first_word(inputs[i], row, strides[i], VEC, PAIRS) + places[p][0]
            loaded = loaded + (load(pointers, places[p][1], FULL),)  # noqa: RUF005
        found = found + (loaded,)  # noqa: RUF005
    return found


@triton.jit
def unpacked_words(words, HALF: tl.constexpr, PAIRS: tl.constexpr):
    """The elements of words in float32: one tensor, or one for the lower and one for the upper halves, of type HALF."""
    if PAIRS == 1:
        return (words.to(tl.float32),)
    elif HALF == tl.bfloat16:  # noqa: SIM300
        return (words << 16).to(tl.float32, bitcast=True), (words & -65536).to(tl.float32, bitcast=True)
    else:
        low, high = words.to(tl.int16), (words >> 16).to(tl.int16)
        return low.to(HALF, bitcast=True).to(tl.float32), high.to(HALF, bitcast=True).to(tl.float32)


@triton.jit
def as_pieces(row, HALF: tl.constexpr, PAIRS: tl.constexpr):
    """For each piece of a row, a tuple with its elements of every input. A block of words is one piece or two."""
    pieces = ()
    for p in tl.static_range(len(row)):
        first = ()
        second = ()
        for i in tl.static_range(len(row[p])):
            halves = unpacked_words(row[p][i], HALF, PAIRS)
            first = first + (halves[0],)  # noqa: RUF005
            second = second + (halves[PAIRS - 1],)  # noqa: RUF005
        pieces = pieces + ((first,) if PAIRS == 1 else (first, second))
    return pieces


@triton.jit
def scale_of(weights, HALF: tl.constexpr, PAIRS: tl.constexpr):
    """The weight of each piece in float32, from blocks of words."""
    scale = ()
    for b in tl.static_range(len(weights)):
        scale = scale + unpacked_words(weights[b], HALF, PAIRS)
    return scale


@triton.jit
def packed_words(halves, HALF: tl.constexpr, PAIRS: tl.constexpr, PTX: tl.constexpr):
    """What `unpacked_words` takes apart. With PTX, one instruction rounds both halves of a word."""
    if PAIRS == 1:
        return halves[0]
    elif PTX and HALF == tl.bfloat16:  # noqa: SIM300
        return tl.inline_asm_elementwise(
            "cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", [halves[0], halves[1]], dtype=tl.int32, is_pure=True, pack=1
        )
    elif PTX:
        return tl.inline_asm_elementwise(
            "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", [halves[0], halves[1]], dtype=tl.int32, is_pure=True, pack=1
        )
    else:
        low = halves[0].to(HALF).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        return low | (halves[1].to(HALF).to(tl.int16, bitcast=True).to(tl.int32) << 16)


@triton.jit
def write_row(
    target,
    places,
    found,
    row,
    weights,
    sums,
    totals,
    N,
    NORMALISED: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    HALF: tl.constexpr,
    PAIRS: tl.constexpr,
    KEPT: tl.constexpr,
    PTX: tl.constexpr,
    FULL: tl.constexpr,
):
    """Write the gradient of a row, of which `sums` are the sums of the row terms. Return `totals` with its column terms
    added."""
    means = ()
    for i in tl.static_range(len(sums)):
        means = means + (sums[i] / N,)  # noqa: RUF005
    pieces = as_pieces(row, HALF, PAIRS)
    scale = scale_of(weights, HALF, KEPT)
    new = ()
    for b in tl.static_range(len(places)):
        gradients = ()
        for half in tl.static_range(PAIRS):
            values = pieces[b * PAIRS + half]
            normalised = NORMALISED(values[1], found)
            gradient = GRADIENT(values[0] * scale[b * PAIRS + half], normalised, means, found, values[2:])
            gradients = gradients + (gradient,)  # noqa: RUF005
            terms = COLUMN_TERMS(values[0], normalised)
            for i in tl.static_range(len(terms)):
                new = new + (totals[(b * PAIRS + half) * len(terms) + i] + terms[i],)  # noqa: RUF005
        store(target + places[b][0], packed_words(gradients, HALF, PAIRS, PTX), places[b][1], FULL)
    return new


@triton.jit(do_not_specialize=["M", "slices", "span"])
def shared_rows(
    dx,
    partial,
    inputs,
    statistics,
    weight,
    strides,
    M,
    N,
    words,
    slices,
    span,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    PAIRS: tl.constexpr,
    PTX: tl.constexpr,
    STAGES: tl.constexpr,
    FULL: tl.constexpr,
    WIDTH: tl.constexpr,
    PDL: tl.constexpr,
    PHASE: tl.constexpr,
):
    """Each team of `slices` programs, at most WIDTH, takes every n-th row. A program has the same `span` columns of all its
    rows, in PIECES blocks of BLOCK, and keeps their column sums in registers. Grid: teams * slices, all on the device at once.

    While a program waits for the sums of a row, it reduces the next row and loads the one after that. So a row is written one
    turn after it was reduced.
    """
    HALF: tl.constexpr = dx.dtype.element_ty
    COUNT: tl.constexpr = PIECES * PAIRS
    part = tl.program_id(0) % slices
    team = tl.program_id(0) // slices
    teams = tl.num_programs(0) // slices
    end = tl.minimum(part * span + span, N) // PAIRS
    places = blocks(part * span // VEC * (VEC // PAIRS), end, BLOCK, PIECES, VEC, PAIRS)
    KEPT: tl.constexpr = PAIRS if weight.dtype.element_ty == HALF else 1
    weights = ()
    for b in tl.static_range(PIECES):
        if KEPT == PAIRS:
            first = first_word(weight, 0, 0, VEC, PAIRS) + places[b][0]
            weights = weights + (load(first, places[b][1], FULL),)  # noqa: RUF005
        else:
            for half in tl.static_range(PAIRS):
                weights = weights + (load(weight + places[b][0] * PAIRS + half, places[b][1], FULL),)  # noqa: RUF005
    totals = no_totals(COUNT * len(partial), 1, BLOCK // PAIRS)
    words += 16
    one = tl.zeros((1, 1), tl.int64)

    row = team.to(tl.int64)
    before = load_row(inputs, strides, row, places, VEC, PAIRS, FULL)
    found_before = load_each(statistics, row + one, True, True)
    following = tl.minimum(row + teams, M - 1)
    if STAGES == 1:
        ahead = load_row(inputs, strides, following, places, VEC, PAIRS, FULL)
        found_ahead = load_each(statistics, following + one, True, True)
    mark = next_mark(words + row * slices + part, PHASE)
    mark_ahead = next_mark(words + following * slices + part, PHASE)
    sums = sum_row_terms(
        found_before, as_pieces(before, HALF, PAIRS), scale_of(weights, HALF, KEPT), NORMALISED, ROW_TERMS, COUNT, True
    )
    if PHASE != 2:
        publish(words + row * slices + part, sums, mark)
    for number in tl.range(team + teams, M, teams, num_stages=STAGES):
        new = tl.cast(number, tl.int64)
        row = new - teams
        following = tl.minimum(new + teams, M - 1)
        if STAGES > 1:
            here = load_row(inputs, strides, new, places, VEC, PAIRS, FULL)
            found = load_each(statistics, new + one, True, True)
        else:
            here = ahead
            found = found_ahead
            ahead = load_row(inputs, strides, following, places, VEC, PAIRS, FULL)
            found_ahead = load_each(statistics, following + one, True, True)
        # a new value: the compiler does not load ahead in loops that pass a value on unchanged
        new_mark = mark_ahead & 1
        mark_ahead = next_mark(words + following * slices + part, PHASE)  # a load takes as long as most of a turn
        sums = sum_row_terms(
            found, as_pieces(here, HALF, PAIRS), scale_of(weights, HALF, KEPT), NORMALISED, ROW_TERMS, COUNT, True
        )
        if PHASE != 2:
            publish(words + new * slices + part, sums, new_mark)
        if PHASE != 1:
            all_sums = gather(words + row * slices, slices, mark, len(sums), WIDTH, STAGES > 1)
            totals = write_row(
                first_word(dx, row, N, VEC, PAIRS), places, found_before, before, weights, all_sums, totals, N,
                NORMALISED, COLUMN_TERMS, GRADIENT, HALF, PAIRS, KEPT, PTX, FULL,
            )  # fmt: skip
        before = here
        found_before = found
        mark = new_mark
    if PHASE != 1:
        row = team.to(tl.int64) + (M - 1 - team) // teams * teams
        all_sums = gather(words + row * slices, slices, mark, len(sums), WIDTH, STAGES > 1)
        totals = write_row(
            first_word(dx, row, N, VEC, PAIRS), places, found_before, before, weights, all_sums, totals, N,
            NORMALISED, COLUMN_TERMS, GRADIENT, HALF, PAIRS, KEPT, PTX, FULL,
        )  # fmt: skip
        if PDL:
            cuda.gdc_launch_dependents()
        for b in tl.static_range(PIECES):
            for half in tl.static_range(PAIRS):
                for i in tl.static_range(len(partial)):
                    target = partial[i] + team.to(tl.int64) * N + places[b][0] * PAIRS + half
                    store(target, totals[(b * PAIRS + half) * len(partial) + i], places[b][1], FULL)
