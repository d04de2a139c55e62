# mypy: ignore-errors
"""How the programs of a team, which share a row, exchange their sums: through a 64-bit word of each, and a mark in it.

The marks of all words of a row are the same before a launch, and the other ones after it. `split` of softmax explains tickets,
marks and phases in full.
"""

import triton
import triton.language as tl

from kbench.kernels.norms.tiles import row_sums


@triton.jit
def publish(word, sums, mark, mask=None):
    """Write one or two sums and a mark into a 64-bit word, in one store: others see all of it or nothing. The mark is the
    lowest bit of the last sum. Numbers, or blocks of words, of which the mask says which exist."""
    last = (sums[len(sums) - 1].to(tl.int32, bitcast=True) & -2) | mark
    pair = last.to(tl.int64) & 0xFFFFFFFF
    if len(sums) > 1:
        pair |= sums[0].to(tl.int32, bitcast=True).to(tl.int64) << 32
    tl.atomic_xchg(word, pair, mask=mask, sem="relaxed")


@triton.jit
def awaited(words, wanted, mark, PTX: tl.constexpr):
    """Wait until all wanted words have this launch's mark. With PTX, threads wait in a loop that the compiler does not see: it
    does not load ahead in loops that have a loop inside."""
    if PTX:
        pairs = tl.inline_asm_elementwise(
            """{
            .reg .pred more; .reg .b64 found;
            mov.b64 $0, 0;
            setp.eq.b32 more, $3, 0;
            @more bra DONE;
            AGAIN: ld.volatile.global.b64 $0, [$1];
            and.b64 found, $0, 1;
            setp.ne.b64 more, found, $2;
            @more bra AGAIN;
            DONE:
            }""",
            "=&l,l,l,r",
            [words.to(tl.int64), mark.to(tl.int64), wanted.to(tl.int32)],
            dtype=tl.int64,
            is_pure=False,
            pack=1,
        )
    else:
        pairs = tl.load(words, mask=wanted, volatile=True)
        while tl.max((wanted & ((pairs & 1) != mark)).to(tl.int32)) > 0:
            pairs = tl.load(words, mask=wanted, volatile=True)
    return pairs


@triton.jit
def gather(words, parts, mark, COUNT: tl.constexpr, WIDTH: tl.constexpr, PTX: tl.constexpr = False):
    """Wait until all words of a team have this launch's mark, and add up their sums: to numbers, because the compiler may move
    a tensor of one element through shared memory to all its users. The lowest bit of the last sum counts as 0, so that the mark
    does not change the result. `awaited` says what PTX is."""
    members = tl.arange(0, WIDTH)
    wanted = members < parts
    pairs = awaited(words + members, wanted, mark, PTX)
    last = (pairs.to(tl.int32) & -2).to(tl.float32, bitcast=True)
    sums = (tl.sum(tl.where(wanted, last, 0.0), 0),)
    if COUNT > 1:
        first = (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        sums = (tl.sum(tl.where(wanted, first, 0.0), 0), sums[0])
    return sums


@triton.jit
def gather_rows(words, inside, parts, mark, COUNT: tl.constexpr, WIDTH: tl.constexpr, PTX: tl.constexpr = False):
    """The same for a block of rows, of which those inside of the matrix exist. `words` point to the first of each row."""
    members = tl.arange(0, WIDTH)[None, :]
    wanted = inside & (members < parts)
    pairs = awaited(words + members, wanted, mark + tl.zeros((1, WIDTH), tl.int32), PTX)
    last = (pairs.to(tl.int32) & -2).to(tl.float32, bitcast=True)
    totals = (tl.where(wanted, last, 0.0),)
    if COUNT > 1:
        first = (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        totals = (tl.where(wanted, first, 0.0), totals[0])
    return row_sums(totals)


@triton.jit
def ticket(words):
    """The number of this program in the order in which programs start, so that the programs of a team start together. The last
    one makes the counter 0 for the next launch."""
    number = tl.atomic_add(words, 1, sem="relaxed").to(tl.int32)
    if number == tl.num_programs(0) - 1:
        tl.store(words, 0)
    return number


@triton.jit
def next_mark(word, PHASE: tl.constexpr, mask=None):
    """The mark of this launch: not the one that its word has. In phase 2, the word has it already."""
    mark = (tl.load(word, mask=mask, volatile=True) & 1).to(tl.int32)
    return mark if PHASE == 2 else 1 - mark
