# mypy: ignore-errors
"""How the programs of a team, which share a row, exchange their sums: through a 64-bit word of each, and a mark in it.

The marks of all words of a row are the same before a launch, and the other ones after it. `split` of softmax explains tickets,
marks and phases in full.
"""

import triton
import triton.language as tl


@triton.jit
def publish(word, sums, mark):
    """Write one or two sums, numbers, and a mark into a 64-bit word, in one store: others see all of it or
    nothing. The mark is the lowest bit of the last sum."""
    last = (sums[len(sums) - 1].to(tl.int32, bitcast=True) & -2) | mark
    pair = last.to(tl.int64) & 0xFFFFFFFF
    if len(sums) > 1:
        pair |= sums[0].to(tl.int32, bitcast=True).to(tl.int64) << 32
    tl.atomic_xchg(word, pair, sem="relaxed")


@triton.jit
def gather(words, parts, mark, COUNT: tl.constexpr, WIDTH: tl.constexpr, PTX: tl.constexpr = False):
    """Wait until all words of a team have this launch's mark, and add up their sums: to numbers, because the compiler may move
    a tensor of one element through shared memory to all its users. The lowest bit of the last sum counts as 0, so that the mark
    does not change the result. With PTX, threads wait in a loop that the compiler does not see: it does not load ahead in loops
    that have a loop inside."""
    members = tl.arange(0, WIDTH)
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
            [(words + members).to(tl.int64), mark.to(tl.int64), (members < parts).to(tl.int32)],
            dtype=tl.int64,
            is_pure=False,
            pack=1,
        )
    else:
        pairs = tl.load(words + members, mask=members < parts, volatile=True)
        while tl.max(((members < parts) & ((pairs & 1) != mark)).to(tl.int32), 0) > 0:
            pairs = tl.load(words + members, mask=members < parts, volatile=True)
    last = (pairs.to(tl.int32) & -2).to(tl.float32, bitcast=True)
    sums = (tl.sum(tl.where(members < parts, last, 0.0), 0),)
    if COUNT > 1:
        first = (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        sums = (tl.sum(tl.where(members < parts, first, 0.0), 0), sums[0])
    return sums


@triton.jit
def ticket(words):
    """The number of this program in the order in which programs start, so that the programs of a team start together. The last
    one makes the counter 0 for the next launch."""
    number = tl.atomic_add(words, 1, sem="relaxed").to(tl.int32)
    if number == tl.num_programs(0) - 1:
        tl.store(words, 0)
    return number


@triton.jit
def next_mark(word, PHASE: tl.constexpr):
    """The mark of this launch: not the one that its word has. In phase 2, the word has it already."""
    mark = (tl.load(word, volatile=True) & 1).to(tl.int32)
    return mark if PHASE == 2 else 1 - mark
