# mypy: ignore-errors
"""A Triton kernel for the gradients of a normalisation of long rows, which the programs of a team share. `backward.py` says
what is computed, and `triton_rows.py` how programs exchange sums through the words of a mailbox.

With PAIRS of 2, elements of 16 bits are loaded two to a word, and a word stays in one register from one turn of the loop to the
next. Elements would take a register each. The two elements of a word are computed as two pieces of the row.

dx is dy * factor * weight and a linear function of the centred x, z / factor: three instructions an element are saved. In the
kernels of `backward.py` this would gain nothing, and cost registers.
"""

import triton
import triton.language as tl
from triton.language.extra import cuda

from kbench.kernels.norms.backward import no_totals, row_statistics, row_sums
from kbench.kernels.norms.forward import load, store, tile_block
from kbench.kernels.triton_rows import gather_words, next_mark, publish_word


@triton.jit
def first_word(matrix, row, stride, VEC: tl.constexpr, PAIRS: tl.constexpr):
    """A pointer to the first word of a row."""
    if PAIRS == 2:
        matrix = matrix.to(tl.pointer_type(tl.int32), bitcast=True)
    return matrix + row * (stride // VEC * (VEC // PAIRS))


@triton.jit
def load_words(inputs, strides, row, places, VEC: tl.constexpr, PAIRS: tl.constexpr, FULL: tl.constexpr):
    """For each block of a row, a tuple with its words of every input."""
    blocks = ()
    for b in tl.static_range(len(places)):
        words = ()
        for i in tl.static_range(len(inputs)):
            pointers = first_word(inputs[i], row, strides[i], VEC, PAIRS) + places[b][0]
            words = words + (load(pointers, places[b][1], FULL, ""),)  # noqa: RUF005 Triton has no other way to append
        blocks = blocks + (words,)  # noqa: RUF005
    return blocks


@triton.jit
def hidden(values, PTX: tl.constexpr):
    """The same values. PTX hides that from the compiler, which would otherwise take more registers than there are: it would
    convert the weight once, to twice the registers, and join the sums of all blocks to one long vector."""
    if not PTX:
        return values
    elif values.dtype == tl.float32:
        return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f", [values], tl.float32, is_pure=True, pack=1)
    else:
        return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [values], tl.int32, is_pure=False, pack=1)


@triton.jit
def halves(words, HALF: tl.constexpr, PAIRS: tl.constexpr):
    """The elements of words in float32: one tensor, or one of the lower and one of the upper halves, of type HALF."""
    if PAIRS == 1:
        return (words.to(tl.float32),)
    elif HALF == tl.bfloat16:  # noqa: SIM300
        return (words << 16).to(tl.float32, bitcast=True), (words & -65536).to(tl.float32, bitcast=True)
    else:
        low, high = words.to(tl.int16), (words >> 16).to(tl.int16)
        return low.to(HALF, bitcast=True).to(tl.float32), high.to(HALF, bitcast=True).to(tl.float32)


@triton.jit
def as_words(values, HALF: tl.constexpr, PAIRS: tl.constexpr, PTX: tl.constexpr):
    """What `halves` takes apart. With PTX, one instruction rounds both halves of a word."""
    if PAIRS == 1:
        return values[0]
    elif PTX:
        TYPE: tl.constexpr = "bf16x2" if HALF == tl.bfloat16 else "f16x2"  # noqa: SIM300
        CONVERT: tl.constexpr = "cvt.rn." + TYPE + ".f32 $0, $2, $1;"
        return tl.inline_asm_elementwise(CONVERT, "=r,f,f", [values[0], values[1]], tl.int32, is_pure=True, pack=1)
    else:
        low = values[0].to(HALF).to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF
        return low | (values[1].to(HALF).to(tl.int16, bitcast=True).to(tl.int32) << 16)


@triton.jit
def load_weights(weight, places, HALF: tl.constexpr, VEC: tl.constexpr, PAIRS: tl.constexpr, FULL: tl.constexpr):
    """For each block, a tuple with its words of the weight or, if a float32 weight is beside 16 bits, with the elements for the
    lower and for the upper halves of words."""
    blocks = ()
    for b in tl.static_range(len(places)):
        if weight.dtype.element_ty == HALF:
            words = first_word(weight, 0, 0, VEC, PAIRS) + places[b][0]
            blocks = blocks + ((load(words, places[b][1], FULL, ""),),)  # noqa: RUF005
        else:
            low = weight + places[b][0] * 2
            blocks = blocks + ((load(low, places[b][1], FULL, ""), load(low + 1, places[b][1], FULL, "")),)  # noqa: RUF005
    return blocks


@triton.jit
def scale_of(weights, HALF: tl.constexpr, PAIRS: tl.constexpr, PTX: tl.constexpr):
    """The weight of a block in float32, as `halves` returns it."""
    if len(weights) == 2:
        return weights
    else:
        return halves(hidden(weights[0], PTX and PAIRS == 2), HALF, PAIRS)


@triton.jit
def centred(x, statistics):
    return x - statistics[1] if len(statistics) == 2 else x


@triton.jit
def publish_sums(words, blocks, weights, statistics, mark, HALF: tl.constexpr, PAIRS: tl.constexpr, PTX: tl.constexpr):
    """Publish the sums of a program's part of a row: that of g * centred x and, with a mean, of g. `publish_word` has no place
    for the sign of the second one: it becomes the lowest bit of the first."""
    products = None
    gradients = None
    for b in tl.static_range(len(blocks)):
        dy, x = halves(blocks[b][0], HALF, PAIRS), halves(blocks[b][1], HALF, PAIRS)
        scale = scale_of(weights[b], HALF, PAIRS, PTX)
        for half in tl.static_range(PAIRS):
            g = dy[half] * scale[half]
            product = g * centred(x[half], statistics)
            products = product if b + half == 0 else products + product
            gradients = g if b + half == 0 else gradients + g
    sums = row_sums(products, gradients, len(statistics) == 2)
    if len(sums) == 1:
        publish_word(words, sums[0], sums[0], mark)  # nobody reads the second one
    else:
        bits = (sums[0].to(tl.int32, bitcast=True) & -2) | (sums[1] < 0).to(tl.int32)
        publish_word(words, bits.to(tl.float32, bitcast=True), tl.abs(sums[1]), mark)


@triton.jit
def await_line(words, slices, mark, statistics, N, WIDTH: tl.constexpr, PTX: tl.constexpr):
    """Wait for the sums of all programs that share a row. Returns the slope of the linear function in dx and, with a mean, its
    value there: numbers, because the compiler may move a tensor of one element through shared memory to all its users."""
    first, second, exists = gather_words(words, slices, mark, WIDTH, PTX)
    signed = tl.where((first.to(tl.int32, bitcast=True) & 1) == 1, -second, second)
    products, gradients = tl.sum(tl.where(exists, first, 0.0), 0), tl.sum(tl.where(exists, signed, 0.0), 0)
    factor = statistics[0]
    slope = -factor * (factor * (factor * products * (1.0 / N)))
    return (slope, -factor * (gradients * (1.0 / N))) if len(statistics) == 2 else (slope,)


@triton.jit
def write_words(
    dx,
    places,
    blocks,
    weights,
    statistics,
    line,
    totals,
    HALF: tl.constexpr,
    PAIRS: tl.constexpr,
    FULL: tl.constexpr,
    PTX: tl.constexpr,
):
    """Write the gradients of a program's part of a row. Returns `totals` with dy * z and, with a mean, dy added."""
    SUMS: tl.constexpr = len(statistics)
    added = ()
    for b in tl.static_range(len(places)):
        dy, x = halves(blocks[b][0], HALF, PAIRS), halves(blocks[b][1], HALF, PAIRS)
        scale = scale_of(weights[b], HALF, PAIRS, PTX)
        of_halves = ()
        for half in tl.static_range(PAIRS):
            x_centred, dy_factor = centred(x[half], statistics), dy[half] * statistics[0]
            linear = x_centred * line[0] + line[1] if SUMS == 2 else x_centred * line[0]
            gradients = dy_factor * scale[half] + linear
            if len(blocks[b]) == 3:
                gradients += halves(blocks[b][2], HALF, PAIRS)[half]
            of_halves = of_halves + (gradients,)  # noqa: RUF005
            terms = (dy_factor * x_centred, dy[half])
            for i in tl.static_range(SUMS):
                total = totals[(b * PAIRS + half) * SUMS + i] + terms[i]
                added = added + (hidden(total, PTX and PAIRS == 2),)  # noqa: RUF005
        store(dx + places[b][0], as_words(of_halves, HALF, PAIRS, PTX), places[b][1], FULL)
    return added


@triton.jit(do_not_specialize=["M", "slices", "span"])
def shared_rows(
    dx,
    partial,
    dy,
    x,
    dh,
    statistics,
    weight,
    words,
    dy_stride,
    x_stride,
    dh_stride,
    M,
    N,
    slices,
    span,
    LAYERNORM: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    PAIRS: tl.constexpr,
    FULL: tl.constexpr,
    WIDTH: tl.constexpr,
    STAGES: tl.constexpr,
    PTX: tl.constexpr,
    PDL: tl.constexpr,
    PHASE: tl.constexpr = 0,
):
    """Each team of `slices` programs, at most WIDTH, takes every n-th row. A program has the same `span` columns of all its
    rows, in PIECES blocks of BLOCK, and keeps their sums over the rows in registers. Grid: teams * slices, all on the device at
    once.

    A row is written one turn after it was summed: while a program waits for the sums of a row, it sums the next one. STAGES - 1
    more are on the way to shared memory. The mark of a row's words changes with each launch.
    """
    inputs = (dy, x) if dh is None else (dy, x, dh)
    strides = (dy_stride, x_stride) if dh is None else (dy_stride, x_stride, dh_stride)
    HALF: tl.constexpr = dx.dtype.element_ty
    SUMS: tl.constexpr = 1 + LAYERNORM
    part = tl.program_id(0) % slices
    team = tl.program_id(0) // slices
    teams = tl.num_programs(0) // slices
    end = tl.minimum(part * span + span, N) // PAIRS
    places = ()
    for b in tl.static_range(PIECES):
        first = part * span // VEC * (VEC // PAIRS) + b * (BLOCK // PAIRS)
        lanes, columns, _ = tile_block(first, end, True, BLOCK // PAIRS, VEC // PAIRS)
        places = places + ((lanes, columns),)  # noqa: RUF005
    weights = load_weights(weight, places, HALF, VEC, PAIRS, FULL)
    totals = no_totals(PIECES * PAIRS * SUMS, 1, BLOCK // PAIRS)
    words += 16

    row = team.to(tl.int64)
    before = load_words(inputs, strides, row, places, VEC, PAIRS, FULL)
    before_statistics = row_statistics(statistics, (row, True), M, LAYERNORM, 1)
    own_word = words + row * slices + part
    mark = next_mark(own_word, PHASE)
    if PHASE != 2:
        publish_sums(own_word, before, weights, before_statistics, mark, HALF, PAIRS, PTX)
    for number in tl.range(team + teams, M, teams, num_stages=STAGES):
        row = tl.cast(number, tl.int64)
        here_statistics = row_statistics(statistics, (row, True), M, LAYERNORM, 1)
        here = load_words(inputs, strides, row, places, VEC, PAIRS, FULL)
        own_word = words + row * slices + part
        here_mark = next_mark(own_word, PHASE)
        if PHASE != 2:
            publish_sums(own_word, here, weights, here_statistics, here_mark, HALF, PAIRS, PTX)
        if PHASE != 1:
            words_before = own_word - part - teams * slices  # `row` would take a register more
            line = await_line(words_before, slices, mark, before_statistics, N, WIDTH, PTX)
            target = first_word(dx, row - teams, N, VEC, PAIRS)
            totals = write_words(
                target, places, before, weights, before_statistics, line, totals, HALF, PAIRS, FULL, PTX
            )
        before = here
        before_statistics = here_statistics
        mark = here_mark
    if PHASE != 1:
        row = (team + (M - 1 - team) // teams * teams).to(tl.int64)
        # without PTX: ptxas would spill a hundred bytes in the loop above
        line = await_line(words + row * slices, slices, mark, before_statistics, N, WIDTH, False)
        target = first_word(dx, row, N, VEC, PAIRS)
        totals = write_words(target, places, before, weights, before_statistics, line, totals, HALF, PAIRS, FULL, PTX)
        if PDL:
            cuda.gdc_launch_dependents()
        partial += team.to(tl.int64) * SUMS * (N // VEC * VEC)
        for b in tl.static_range(PIECES):
            for half in tl.static_range(PAIRS):
                for i in tl.static_range(SUMS):
                    pointers = partial + i * (N // VEC * VEC) + places[b][0] * PAIRS + half
                    store(pointers, totals[(b * PAIRS + half) * SUMS + i], places[b][1], FULL)
