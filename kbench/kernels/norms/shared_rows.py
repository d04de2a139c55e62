# mypy: ignore-errors
"""A Triton kernel for the gradients of a normalisation of long rows, which are shared by the programs of a team.
`backward_kernels.py` says what the functions of an operator and the arguments are, and `exchange.py` how a team exchanges sums.

With PAIRS of 2, 16-bit elements are loaded two to a word, and a word stays in one register from one turn of the loop to the
next. Elements would take a register each. The two elements of a word are computed as two pieces of the row.
"""

import triton
import triton.language as tl
from triton.language.extra import cuda

from kbench.kernels.norms.backward_kernels import no_totals
from kbench.kernels.norms.exchange import gather, gather_rows, next_mark, publish
from kbench.kernels.norms.tiles import add_terms, block, load, load_each, row_sums, store, sums_of_one_row


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
def tile_rows(tile, M, ROWS: tl.constexpr):
    """The rows of a tile, and which of them exist. One row is a number."""
    if ROWS == 1:
        return tl.cast(tile, tl.int64), True
    else:
        rows = tl.cast(tile, tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        return rows, rows < M


@triton.jit
def load_tile(
    inputs,
    statistics,
    strides,
    rows,
    inside,
    places,
    ROWS: tl.constexpr,
    VEC: tl.constexpr,
    PAIRS: tl.constexpr,
    FULL: tl.constexpr,
):
    """The statistics of some rows, and for each block of them, a tuple with its words of every input."""
    lanes = rows + tl.zeros((1, 1), tl.int64)
    found = load_each(statistics, lanes, inside, FULL or ROWS == 1)
    tile = ()
    for p in tl.static_range(len(places)):
        loaded = ()
        mask = places[p][1] & inside if ROWS > 1 else places[p][1]
        for i in tl.static_range(len(inputs)):
            pointers = first_word(inputs[i], rows, strides[i], VEC, PAIRS) + places[p][0]
            loaded = loaded + (load(pointers, mask, FULL),)  # noqa: RUF005
        tile = tile + (loaded,)  # noqa: RUF005
    return found, tile


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
def as_pieces(block_words, HALF: tl.constexpr, PAIRS: tl.constexpr):
    """For each piece of a row that a block of words is, one or two, a tuple with its elements of every input."""
    first = ()
    second = ()
    for i in tl.static_range(len(block_words)):
        halves = unpacked_words(block_words[i], HALF, PAIRS)
        first = first + (halves[0],)  # noqa: RUF005
        second = second + (halves[PAIRS - 1],)  # noqa: RUF005
    return (first,) if PAIRS == 1 else (first, second)


@triton.jit
def scale_of(weights, b: tl.constexpr, HALF: tl.constexpr, PAIRS: tl.constexpr, KEPT: tl.constexpr, PTX: tl.constexpr):
    """The weight of each piece of block b in float32. PTX hides from the compiler that words are the same in every turn: it
    would convert them once and keep the results, in two registers for what one holds."""
    if KEPT < PAIRS:
        return weights[b * PAIRS].to(tl.float32), weights[b * PAIRS + 1].to(tl.float32)
    elif PTX and PAIRS == 2:
        words = tl.inline_asm_elementwise(
            "mov.b32 $0, $1;", "=r,r", [weights[b]], dtype=tl.int32, is_pure=False, pack=1
        )
        return unpacked_words(words, HALF, PAIRS)
    else:
        return unpacked_words(weights[b], HALF, PAIRS)


@triton.jit
def sum_tile_terms(
    found,
    tile,
    weights,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PAIRS: tl.constexpr,
    KEPT: tl.constexpr,
    PTX: tl.constexpr,
):
    """The sums of the row terms of some rows. Those of one row are numbers."""
    totals = ()
    for b in tl.static_range(len(tile)):
        pieces = as_pieces(tile[b], HALF, PAIRS)
        scale = scale_of(weights, b, HALF, PAIRS, KEPT, PTX)
        for half in tl.static_range(PAIRS):
            values = pieces[half]
            terms = ROW_TERMS(values[0] * scale[half], NORMALISED(values[1], found))
            totals = terms if b + half == 0 else add_terms(totals, terms, True, False)
    return sums_of_one_row(totals) if ROWS == 1 else row_sums(totals)


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
def separate(sums, PTX: tl.constexpr):
    """The same sums. PTX hides that from the compiler, which would join the sums of all blocks to one long vector. It would
    then compute each step of all blocks before the next step, and registers would not suffice."""
    if PTX:
        return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f", [sums], dtype=tl.float32, is_pure=True, pack=1)
    else:
        return sums


@triton.jit
def write_tile(
    target,
    places,
    found,
    tile,
    inside,
    weights,
    sums,
    totals,
    N,
    NORMALISED: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
    PAIRS: tl.constexpr,
    KEPT: tl.constexpr,
    PTX: tl.constexpr,
    FULL: tl.constexpr,
):
    """Write the gradients of some rows, of which `sums` are the sums of the row terms. Return `totals` with their column terms
    added."""
    means = ()
    for i in tl.static_range(len(sums)):
        means = means + (sums[i] * (1.0 / N),)  # noqa: RUF005
    new = ()
    for b in tl.static_range(len(places)):
        pieces = as_pieces(tile[b], HALF, PAIRS)
        scale = scale_of(weights, b, HALF, PAIRS, KEPT, PTX)
        gradients = ()
        for half in tl.static_range(PAIRS):
            values = pieces[half]
            normalised = NORMALISED(values[1], found)
            gradient = GRADIENT(values[0] * scale[half], normalised, means, found, values[2:])
            gradients = gradients + (gradient,)  # noqa: RUF005
            terms = COLUMN_TERMS(values[0], normalised)
            for i in tl.static_range(len(terms)):
                term = tl.sum(terms[i], 0, keep_dims=True) if ROWS > 1 else terms[i]
                new = new + (separate(totals[(b * PAIRS + half) * len(terms) + i] + term, PTX and PAIRS == 2),)  # noqa: RUF005
        mask = places[b][1] & inside if ROWS > 1 else places[b][1]
        store(target + places[b][0], packed_words(gradients, HALF, PAIRS, PTX), mask, FULL)
    return new


@triton.jit
def publish_tile(words, sums, mark, inside, ROWS: tl.constexpr):
    if ROWS == 1:
        publish(words, sums, mark)
    else:
        publish(words, sums, mark, inside)


@triton.jit
def gather_tile(
    words, slices, inside, mark, COUNT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, PTX: tl.constexpr
):
    if ROWS == 1:
        return gather(words, slices, mark, COUNT, WIDTH, PTX)
    else:
        return gather_rows(words, inside, slices, mark, COUNT, WIDTH, PTX)


@triton.jit(do_not_specialize=["M", "tiles", "slices", "span"])
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
    tiles,
    slices,
    span,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    PAIRS: tl.constexpr,
    PTX: tl.constexpr,
    STAGES: tl.constexpr,
    ONE_TILE: tl.constexpr,
    FULL: tl.constexpr,
    WIDTH: tl.constexpr,
    PDL: tl.constexpr,
    PHASE: tl.constexpr,
):
    """Each team of `slices` programs, at most WIDTH, takes every n-th tile of ROWS rows. A program has the same `span` columns
    of all its rows, in PIECES blocks of BLOCK, and keeps their column sums in registers. With ONE_TILE, a team takes one tile.
    Grid: teams * slices, all on the device at once.

    While a program waits for the sums of a tile, it reduces the next tile and loads the one after that. So a tile is written
    one turn after it was reduced.
    """
    HALF: tl.constexpr = dx.dtype.element_ty
    COUNT: tl.constexpr = PIECES * PAIRS
    AHEAD: tl.constexpr = STAGES == 1 and not ONE_TILE
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

    rows, inside = tile_rows(team, M, ROWS)
    found_before, before = load_tile(inputs, statistics, strides, rows, inside, places, ROWS, VEC, PAIRS, FULL)
    following, follows = tile_rows(tl.minimum(team + teams, tiles - 1), M, ROWS)
    if AHEAD:
        found_ahead, ahead = load_tile(inputs, statistics, strides, following, follows, places, ROWS, VEC, PAIRS, FULL)
    mark = next_mark(words + rows * slices + part, PHASE, inside)
    mark_ahead = next_mark(words + following * slices + part, PHASE, follows)
    sums = sum_tile_terms(found_before, before, weights, NORMALISED, ROW_TERMS, ROWS, HALF, PAIRS, KEPT, PTX)
    if PHASE != 2:
        publish_tile(words + rows * slices + part, sums, mark, inside, ROWS)
    if not ONE_TILE:
        for tile in tl.range(team + teams, tiles, teams, num_stages=STAGES):
            rows, inside = tile_rows(tile - teams, M, ROWS)
            new, exists = tile_rows(tile, M, ROWS)
            following, follows = tile_rows(tl.minimum(tile + teams, tiles - 1), M, ROWS)
            if AHEAD:
                here = ahead
                found = found_ahead
                found_ahead, ahead = load_tile(
                    inputs, statistics, strides, following, follows, places, ROWS, VEC, PAIRS, FULL
                )
            else:
                found, here = load_tile(inputs, statistics, strides, new, exists, places, ROWS, VEC, PAIRS, FULL)
            # a new value: the compiler does not load ahead in loops that pass a value on unchanged
            new_mark = mark_ahead & 1
            mark_ahead = next_mark(words + following * slices + part, PHASE, follows)  # takes as long as most of a turn
            sums = sum_tile_terms(found, here, weights, NORMALISED, ROW_TERMS, ROWS, HALF, PAIRS, KEPT, PTX)
            if PHASE != 2:
                publish_tile(words + new * slices + part, sums, new_mark, exists, ROWS)
            if PHASE != 1:
                all_sums = gather_tile(words + rows * slices, slices, inside, mark, len(sums), ROWS, WIDTH, STAGES > 1)
                totals = write_tile(
                    first_word(dx, rows, N, VEC, PAIRS), places, found_before, before, inside, weights, all_sums, totals, N,
                    NORMALISED, COLUMN_TERMS, GRADIENT, ROWS, HALF, PAIRS, KEPT, PTX, FULL,
                )  # fmt: skip
            before = here
            found_before = found
            mark = new_mark
    if PHASE != 1:
        rows, inside = tile_rows(team + (tiles - 1 - team) // teams * teams, M, ROWS)
        all_sums = gather_tile(words + rows * slices, slices, inside, mark, len(sums), ROWS, WIDTH, STAGES > 1)
        totals = write_tile(
            first_word(dx, rows, N, VEC, PAIRS), places, found_before, before, inside, weights, all_sums, totals, N,
            NORMALISED, COLUMN_TERMS, GRADIENT, ROWS, HALF, PAIRS, KEPT, PTX, FULL,
        )  # fmt: skip
        if PDL:
            cuda.gdc_launch_dependents()
        for b in tl.static_range(PIECES):
            for half in tl.static_range(PAIRS):
                for i in tl.static_range(len(partial)):
                    target = partial[i] + team.to(tl.int64) * N + places[b][0] * PAIRS + half
                    store(target, totals[(b * PAIRS + half) * len(partial) + i], places[b][1], FULL)
