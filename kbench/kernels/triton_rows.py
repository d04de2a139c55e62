# mypy: ignore-errors
"""What kbench's Triton kernels share: how they move rows in vectors of 16 bytes, and how the programs of a row exchange
results. `triton_launch.py` is the side of the host.

**Rows.** A program has ROWS rows, or a slice of one row, in blocks of BLOCK lanes. Lanes count from the vector that holds a
row's first element; this element is in lane `head`. With EDGES, rows begin anywhere. A program then moves the vectors that
belong to its rows only, and the up to 2 * VEC - 2 elements outside of them, the edges, one by one. Without EDGES, rows consist
of whole vectors, and `head` is 0.

**Programs of a row.** If WIDTH > 1, `slices` programs share a row, one for each slice. They exchange two numbers through
`words`: a ticket counter, 15 words of padding, then `slices` words for each row. Every launch inverts the mark of every word of
its rows. Before it writes, a program reads the mark of its own word. A word belongs to this launch if its mark differs from
that. So nothing must be cleared, neither between launches nor between replays of a graph.

A program that waits keeps its multiprocessor, so the programs that it waits for must find a place. If all programs fit on the
device at once, the launch is cooperative: none starts before there is room for all. Otherwise the programs take TICKETS, and
teams form in the order in which programs start. The members of a team are then running, or next to start.

PHASE is for the interpreter, which runs programs one by one. In PHASE 1 they publish and end, in PHASE 2 they continue.
"""

import triton
import triton.language as tl
from triton import knobs
from triton.language.extra import libdevice

INTERPRETED = tl.constexpr(knobs.runtime.interpret)

SMALLEST = tl.constexpr(-3.4028234663852886e38)
"""The smallest finite float32. It is the maximum of no elements: unlike -inf, it can be subtracted from -inf."""


GATHERED = tl.constexpr(32)
"""Words of a team that a program reads at a time: one for each thread of a warp. Fewer or more would need registers or shared
memory for their reduction."""


@triton.jit
def flushed_exp(v):
    """exp of a float32; results below the normal range become zero. `tl.exp` keeps them, for three more instructions per
    element. The interpreter has no libdevice."""
    v *= 1.4426950408889634
    return tl.exp2(v) if INTERPRETED else libdevice.exp2(v)


@triton.jit
def first_vectors(x, rows, stride, VEC: tl.constexpr, EDGES: tl.constexpr):
    """Pointers to the vector with the first element of each row of x, and the lane of that element."""
    if EDGES:
        start = rows * stride
        return x + start // VEC * VEC, (start & (VEC - 1)).to(tl.int32)
    else:
        return x + rows * (stride // VEC * VEC), 0


@triton.jit
def row_edges(start, N, inside, part, VEC: tl.constexpr):
    """The columns of a row outside whole vectors: at most VEC - 1 at either end. The first element of the row is `start`
    elements into memory. `inside` is a mask of the rows that exist. Returns the columns and a mask of those to move: the
    first program of a row moves them."""
    before = (-start & (VEC - 1)).to(tl.int32)
    after = (N - before) // VEC * VEC + before
    lanes = tl.arange(0, 2 * VEC)[None, :]
    columns = tl.where(lanes < VEC, lanes, lanes - VEC + after)
    return columns, (columns < N) & ((lanes >= VEC) | (columns < before)) & (inside & (part == 0))


@triton.jit
def end_of_vectors(N, head, limit, VEC: tl.constexpr, EDGES: tl.constexpr):
    """Whole vectors of a row begin before this lane, and before `limit`, which is a multiple of VEC."""
    return tl.minimum(N + head - (VEC - 1) if EDGES else N, limit)


@triton.jit
def block_lanes(first, end, inside, head, BLOCK: tl.constexpr, VEC: tl.constexpr, EDGES: tl.constexpr):
    """The lanes of the block that begins at lane `first`, and a mask of those to move. `inside` is a mask of the rows that
    exist."""
    lanes = first + tl.arange(0, BLOCK)[None, :]
    vectors = lanes // VEC * VEC  # the first lane of each vector: masks made of it never divide a vector
    mask = inside & (vectors < end)
    if EDGES:
        mask &= vectors >= head
    return lanes, mask


@triton.jit
def load_blocks(
    source,
    first,
    end,
    inside,
    head,
    other,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    EDGES: tl.constexpr,
    EVICTION: tl.constexpr,
):
    """COUNT blocks from lane `first` on, as a tuple. EVICTION is Triton's eviction policy."""
    blocks = ()
    for p in tl.static_range(COUNT):
        lanes, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, EDGES)
        v = tl.load(source + lanes, mask=mask, other=other, eviction_policy=EVICTION)
        blocks = blocks + (v,)  # noqa: RUF005 Triton has no other way to append
    return blocks


@triton.jit
def vector_groups(v, VEC: tl.constexpr):
    """A block (ROWS, BLOCK) in float32, as (ROWS, BLOCK // VEC, VEC). A thread has all elements of a vector, so it reduces the
    last axis by itself."""
    return tl.reshape(v.to(tl.float32), [v.shape[0], v.shape[1] // VEC, VEC])


@triton.jit
def converted_later(blocks, PACKED: tl.constexpr):
    """The same blocks of 16-bit elements, two in a register, for which LLVM reuses no earlier result. So it can take the
    maximum of two elements at once, and converts them to float32 afterwards. PACKED: on NVIDIA only."""
    if not PACKED:
        return blocks
    again = ()
    for p in tl.static_range(len(blocks)):
        v = tl.inline_asm_elementwise("", "=r,0", [blocks[p]], dtype=blocks[p].dtype, is_pure=False, pack=2)
        again = again + (v,)  # noqa: RUF005 Triton has no other way to append
    return again


@triton.jit
def still_packed(blocks, zero, PACKED: tl.constexpr):
    """The same blocks of 16-bit elements, two in a register. `zero` is an int16 that is 0 in a way that no compiler can know.
    Without it, ptxas would see that an element is converted to float32 twice, and keep the first result, which takes twice the
    registers. PACKED: on NVIDIA only."""
    if not PACKED:
        return blocks
    again = ()
    for p in tl.static_range(len(blocks)):
        v = tl.inline_asm_elementwise(
            "xor.b32 $0, $1, $2;", "=r,r,r", [blocks[p], zero], dtype=blocks[p].dtype, is_pure=True, pack=2
        )
        again = again + (v,)  # noqa: RUF005
    return again


@triton.jit
def add_exponentials(top, total, blocks, VEC: tl.constexpr, PACKED: tl.constexpr):
    """Add blocks to the running maximum `top` of each group of lanes, and to its running sum of exp(v - top) (Milakov and
    Gimelshein, "Online normalizer calculation for softmax", 2018). Both are (ROWS, BLOCK // VEC)."""
    higher = top
    for p in tl.static_range(len(blocks)):
        higher = tl.maximum(higher, tl.max(vector_groups(blocks[p], VEC), 2))
    total *= flushed_exp(top - higher)
    blocks = converted_later(blocks, PACKED)
    for p in tl.static_range(len(blocks)):
        total += tl.sum(flushed_exp(vector_groups(blocks[p], VEC) - higher[:, :, None]), 2)
    return higher, total


@triton.jit
def row_maximum(v):
    """The maximum of each row of a block, (ROWS, 1); a number if there is one row. A number has no layout. If a block met a
    tensor from a reduction, the compiler would move the whole block through shared memory to the layout of that tensor."""
    if v.shape[0] == 1:
        return tl.max(tl.max(v, 1), 0)
    else:
        return tl.max(v, 1, keep_dims=True)


@triton.jit
def row_total(v):
    """The sum of each row of a block, as `row_maximum` returns it."""
    if v.shape[0] == 1:
        return tl.sum(tl.sum(v, 1), 0)
    else:
        return tl.sum(v, 1, keep_dims=True)


@triton.jit
def joined(top, total):
    """The maximum of each row, and the sum of its sums as they are with that maximum."""
    highest = row_maximum(top)
    # The choice keeps the product apart from the addition of another lane's product: one instruction for both would round only
    # one of the two, and the lanes, which all write the sum, would disagree in the last bit.
    return highest, row_total(tl.where(total == 0, 0.0, total * flushed_exp(top - highest)))


@triton.jit
def next_mark(word, PHASE: tl.constexpr):
    """The mark of this launch in a word: not the one that it has. In PHASE 2 it has it already."""
    # half a word takes one register less
    mark = (tl.load(word.to(tl.pointer_type(tl.int32), bitcast=True), volatile=True) >> 31) & 1
    return mark if PHASE == 2 else 1 - mark


@triton.jit
def team_of(words, slices, WIDTH: tl.constexpr, TICKETS: tl.constexpr, PHASE: tl.constexpr):
    """The place of a program: which rows it has, which slice of them, the words of its team, and the mark of this launch."""
    if WIDTH > 1:
        number = tl.program_id(0)
        if TICKETS:
            number = tl.atomic_add(words, 1, sem="relaxed").to(tl.int32)
            if number == tl.num_programs(0) - 1:
                tl.store(words, 0)
        part = number % slices
        words += 16 + (number - part)
        return number // slices, part, words, next_mark(words + part, PHASE)
    else:
        return tl.program_id(0), 0, 0, 0


@triton.jit
def publish_word(word, high, low, mark):
    """Write two float32 and a mark into one 64-bit word, in one store: others see all of it or nothing. `low` is not negative:
    the mark takes the place of its sign."""
    pair = (high.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (mark.to(tl.int64) << 31)
    pair |= (low.to(tl.int32, bitcast=True) & 0x7FFFFFFF).to(tl.int64)
    tl.atomic_xchg(word, pair, sem="relaxed")


@triton.jit
def gather_words(words, count, mark, WIDTH: tl.constexpr, PTX: tl.constexpr = False):
    """Wait until all `count` words of a team have this mark. Returns their two numbers, and a mask of those that exist. With
    PTX, each thread waits for its own words: inside another loop, a loop of Triton's would leave that one no stages."""
    members = tl.arange(0, WIDTH)
    exist = members < count
    if PTX:
        pairs = tl.inline_asm_elementwise(
            """{
            .reg .pred early; .reg .b32 low, high;
            again: ld.relaxed.gpu.global.b64 $0, [$1];
            mov.b64 {low, high}, $0;
            shr.u32 low, low, 31;
            setp.ne.u32 early, low, $2;
            @early bra again;
            }""",
            "=&l,l,r", [words + tl.minimum(members, count - 1), mark], tl.int64, is_pure=False, pack=1,
        )  # fmt: skip
    else:
        pairs = tl.load(words + members, mask=exist, volatile=True)
        while tl.max((exist & (((pairs >> 31) & 1) != mark)).to(tl.int32), 0) > 0:
            pairs = tl.load(words + members, mask=exist, volatile=True)
    high = (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    low = (pairs & 0x7FFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
    return high, low, exist


@triton.jit
def gather_softmax(words, slices, mark, WIDTH: tl.constexpr, STEP: tl.constexpr):
    """The maximum of a row and its sum of exp(v - maximum), from the words of its team, STEP at a time. Both are numbers: the
    compiler may move blocks to the layout of a tensor."""
    row_max, row_sum = SMALLEST, 0.0
    for first in tl.static_range(0, WIDTH, STEP):
        maxima, sums, exist = gather_words(words + first, slices - first, mark, STEP)
        maxima, sums = tl.where(exist, maxima, SMALLEST), tl.where(exist, sums, 0.0)
        before = row_max
        row_max = tl.maximum(before, tl.max(maxima, 0))
        row_sum = row_sum * flushed_exp(before - row_max) + tl.sum(sums * flushed_exp(maxima - row_max), 0)
    return row_max, row_sum
