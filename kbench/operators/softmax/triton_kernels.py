# mypy: ignore-errors
"""Triton kernels of the row softmax. `triton_dispatch.py` chooses among them.

All take the same arguments, so that one function launches them all: `out`, a contiguous (M, N) matrix; `x`, an (M, N)
matrix whose rows are `row_stride` elements apart and whose columns are neighbours; M and N; then the compile-time
constants. All compute in float32. Row offsets have 64 bits, because row * row_stride passes 2^31 long before memory ends.

No kernel tests for special values. `tl.max` skips NaN, but NaN minus anything is NaN, and so is the sum. A row of -inf
gives -inf - -inf = NaN, and so does +inf - +inf. So the same rows are NaN as in torch.
"""

import triton
import triton.language as tl
from triton import knobs
from triton.language.extra import libdevice

INTERPRETED = tl.constexpr(knobs.runtime.interpret)

ARGUMENTS = ["row_stride", "M", "N"]


@triton.jit
def _exp(v):
    """exp of a float32; results below the normal range become zero. `tl.exp` keeps them, for three more instructions per
    element. The interpreter has no libdevice."""
    v *= 1.4426950408889634
    return tl.exp2(v) if INTERPRETED else libdevice.exp2(v)


@triton.jit
def _softmax(v, axis: tl.constexpr):
    """Softmax of a block in registers, along `axis`. Columns past the end of the row hold -inf and become zero."""
    e = tl.exp(v - tl.max(v, axis, keep_dims=True))
    return e / tl.sum(e, axis, keep_dims=True)


@triton.jit(do_not_specialize=["M"])
def row(out, x, row_stride, M, N, BLOCK: tl.constexpr):
    """One program per row; the row stays in registers. Grid: M."""
    pid = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x + pid * row_stride + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
    tl.store(out + pid * N + cols, _softmax(v, 0), mask=cols < N)


@triton.jit
def _edges(start, N, VEC: tl.constexpr):
    """The columns of a row outside whole vectors: at most VEC - 1 at either end. The first element of the row is `start`
    elements into memory. Returns the columns and a mask of those that exist."""
    before = (-start & (VEC - 1)).to(tl.int32)
    after = (N - before) // VEC * VEC + before
    lanes = tl.arange(0, 2 * VEC)
    cols = tl.where(lanes < VEC, lanes, lanes - VEC + after)
    return cols, (cols < N) & ((lanes >= VEC) | (cols < before))


@triton.jit
def _lanes(piece, inside, head, N, BLOCK: tl.constexpr, VEC: tl.constexpr, WINDOW: tl.constexpr):
    """The lanes of a piece of a row, counted from the row's first vector, and a mask of those in vectors that hold elements
    of this row only. `inside` is a mask of the rows that exist."""
    lanes = piece * BLOCK + tl.arange(0, BLOCK)[None, :]
    vectors = lanes // VEC * VEC  # the first lane of each vector: masks made of it never divide a vector
    mask = inside & (vectors >= head) & (vectors <= N + head - VEC) if WINDOW else inside & (vectors < N)
    return lanes, mask


@triton.jit(do_not_specialize=ARGUMENTS)
def tile(
    out,
    x,
    row_stride,
    M,
    N,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    WINDOW: tl.constexpr,
    STREAM: tl.constexpr,
    POLICY: tl.constexpr,
):
    """ROWS rows per program, each in PIECES blocks of BLOCK lanes, moved in vectors of VEC elements. Grid: M / ROWS,
    rounded up.

    With WINDOW, rows may start and end anywhere. The lanes then begin at the vector that holds the row's first element,
    `head` lanes before that element. They hold the vectors that belong to this row only; the edges are moved element by
    element. STREAM: see `STREAMED_BYTES` in triton_dispatch.
    POLICY: the eviction policy of loads.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    start = rows * row_stride
    to = rows * N
    # of the first vector of every row; simpler to compute if every row starts with a vector
    if WINDOW:
        source, target = x + start // VEC * VEC, out + to // VEC * VEC
    else:
        source, target = x + rows * (row_stride // VEC * VEC), out + rows * (N // VEC * VEC)
    head = 0
    if WINDOW:
        head = (start & (VEC - 1)).to(tl.int32)
        edges, on_edge = _edges(start, N, VEC)
        on_edge &= rows < M
        edge = tl.load(x + start + edges, mask=on_edge, other=-float("inf")).to(tl.float32)
    blocks = ()
    for p in tl.static_range(PIECES):
        lanes, mask = _lanes(p, rows < M, head, N, BLOCK, VEC, WINDOW)
        v = tl.load(source + lanes, mask=mask, other=-float("inf"), eviction_policy=POLICY).to(tl.float32)
        blocks = blocks + (v,)  # noqa: RUF005 Triton has no other way to append
    lane_max = blocks[0]
    for p in tl.static_range(1, PIECES):
        lane_max = tl.maximum(lane_max, blocks[p])
    row_max = tl.max(lane_max, 1, keep_dims=True)
    if WINDOW:
        row_max = tl.maximum(row_max, tl.max(edge, 1, keep_dims=True))
    exps = (_exp(blocks[0] - row_max),)
    lane_sum = exps[0]
    for p in tl.static_range(1, PIECES):
        e = _exp(blocks[p] - row_max)
        lane_sum += e
        exps = exps + (e,)  # noqa: RUF005
    row_sum = tl.sum(lane_sum, 1, keep_dims=True)
    if WINDOW:
        edge = _exp(edge - row_max)
        row_sum += tl.sum(edge, 1, keep_dims=True)
    scale = 1 / row_sum
    if WINDOW:
        tl.store(out + to + edges, edge * scale, mask=on_edge)
    for p in tl.static_range(PIECES):
        lanes, mask = _lanes(p, rows < M, head, N, BLOCK, VEC, WINDOW)
        tl.store(target + lanes, exps[p] * scale, mask, cache_modifier=".cs" if STREAM else "")


@triton.jit
def _publish(word, row_max, row_sum, flip):
    """Write a maximum, the mark of this launch, and a sum into one 64-bit word, in one store: others see all of it or nothing.
    The mark takes the place of the sum's sign, because a sum of exponentials is never negative."""
    pair = (row_max.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (flip.to(tl.int64) << 31)
    pair |= (row_sum.to(tl.int32, bitcast=True) & 0x7FFFFFFF).to(tl.int64)
    tl.atomic_xchg(word, pair, sem="relaxed")


@triton.jit
def _gather(words, parts, flip, WIDTH: tl.constexpr):
    """Wait until all words of a team have this launch's mark, and combine them into the maximum and the sum of the row."""
    members = tl.arange(0, WIDTH)
    pairs = tl.load(words + members, mask=members < parts, volatile=True)
    while tl.max(((members < parts) & (((pairs >> 31) & 1) != flip)).to(tl.int32), 0) > 0:
        pairs = tl.load(words + members, mask=members < parts, volatile=True)
    maxima = (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    sums = (pairs & 0x7FFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
    maxima = tl.where(members < parts, maxima, -float("inf"))
    row_max = tl.max(maxima, 0)
    return row_max, tl.sum(tl.where(members < parts, sums, 0.0) * _exp(maxima - row_max), 0)


@triton.jit(do_not_specialize=[*ARGUMENTS, "parts", "span"])
def split(
    out,
    x,
    row_stride,
    M,
    N,
    words,
    parts,
    span,
    TICKETS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    WINDOW: tl.constexpr,
    STREAM: tl.constexpr,
    POLICY: tl.constexpr,
    PHASE: tl.constexpr = 0,
):
    """A team of `parts` programs reads a row once. Each program keeps a slice of `span` elements in registers. The programs
    exchange a maximum and a sum through `words`. Grid: `parts` programs per row.

    `words` holds a ticket counter, 15 words of padding, then `parts` words per row. Every launch inverts the mark of every
    word of its rows. Before it writes, a program reads the mark of its own word. A word belongs to this launch if its mark
    differs from that. So nothing must be cleared, neither between launches nor between replays of a graph.

    A program that waits keeps its multiprocessor. So the programs it waits for must be running, or must still find a place.
    With TICKETS, teams form in the order in which programs start, however many there are. The members of a team are then
    running, or next to start, if the device holds `parts` programs. Without TICKETS the device must hold the whole grid.

    PHASE is for the interpreter, which runs programs one by one: PHASE 1 publishes and ends, PHASE 2 continues from there.
    WINDOW is as in `tile`; the first slice takes both edges.
    """
    pid = tl.program_id(0)
    if TICKETS:
        pid = tl.atomic_add(words, 1, sem="relaxed").to(tl.int32)
        if pid == tl.num_programs(0) - 1:
            tl.store(words, 0)
    part = pid % parts
    row = (pid // parts).to(tl.int64)
    first = part * span // VEC * VEC
    lanes = tl.arange(0, BLOCK)
    vectors = lanes // VEC * VEC  # as in `_lanes`
    start = row * row_stride
    to = row * N
    mask = vectors < tl.minimum(N - first, span)
    if WINDOW:
        head = (start & (VEC - 1)).to(tl.int32)
        mask = (vectors >= head - first) & (vectors <= tl.minimum(N + head - first, span) - VEC)
        edges, on_edge = _edges(start, N, VEC)
        on_edge &= part == 0
        edge = tl.load(x + start + edges, mask=on_edge, other=-float("inf")).to(tl.float32)
    source = x + start // VEC * VEC + first
    v = tl.load(source + lanes, mask=mask, other=-float("inf"), eviction_policy=POLICY).to(tl.float32)
    if WIDTH > 1:
        words += 16
        low = (words + pid).to(tl.pointer_type(tl.int32), bitcast=True)  # half a word takes one register less
        flip = (tl.load(low, volatile=True) >> 31) & 1
        if PHASE != 2:
            flip = 1 - flip
    slice_max = tl.max(v, 0)
    if WINDOW:
        slice_max = tl.maximum(slice_max, tl.max(edge, 0))
    # a slice of -inf in a finite row must add nothing to the sum, not NaN
    shift = tl.where(slice_max == -float("inf"), 0.0, slice_max) if WIDTH > 1 else slice_max
    e = _exp(v - shift)
    slice_sum = tl.sum(e, 0)
    if WINDOW:
        edge = _exp(edge - shift)
        slice_sum += tl.sum(edge, 0)
    scale = 1 / slice_sum
    if WIDTH > 1:
        if PHASE != 2:
            _publish(words + pid, slice_max, slice_sum, flip)
        if PHASE != 1:
            row_max, row_sum = _gather(words + (pid - part), parts, flip, WIDTH)
            scale = _exp(shift - row_max) / row_sum
    if PHASE != 1:
        if WINDOW:
            tl.store(out + to + edges, edge * scale, mask=on_edge)
        tl.store(out + to // VEC * VEC + first + lanes, e * scale, mask, cache_modifier=".cs" if STREAM else "")


@triton.jit(do_not_specialize=["M"])
def persistent(out, x, row_stride, M, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Each program strides over the rows. With STAGES > 1 it loads the next rows while it computes one. Grid: any."""
    cols = tl.arange(0, BLOCK)
    for i in tl.range(tl.program_id(0).to(tl.int64), M, tl.num_programs(0), num_stages=STAGES):
        r = tl.cast(i, tl.int64)  # already 64-bit, except in the interpreter
        v = tl.load(x + r * row_stride + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        tl.store(out + r * N + cols, _softmax(v, 0), mask=cols < N)


@triton.jit(do_not_specialize=["M"])
def online(out, x, row_stride, M, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """One program per row. It reads the row twice, in pieces of BLOCK: for rows that registers cannot hold. Grid: M.

    Every lane keeps the maximum and the sum of its own columns (Milakov and Gimelshein, "Online normalizer calculation for
    softmax", 2018). So the loop has no reduction across threads; the lanes are combined once, after it.
    """
    pid = tl.program_id(0).to(tl.int64)
    x += pid * row_stride
    out += pid * N
    lanes = tl.arange(0, BLOCK)

    lane_max = tl.full((BLOCK,), -float("inf"), tl.float32)
    lane_sum = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        cols = start + lanes
        v = tl.load(x + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        new_max = tl.maximum(lane_max, v)
        # a lane that has seen only -inf must keep a sum of zero; NaN would make the whole row NaN
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        lane_sum = lane_sum * _exp(lane_max - shift) + _exp(v - shift)
        lane_max = new_max

    row_max = tl.max(lane_max, 0)
    row_sum = tl.sum(lane_sum * _exp(lane_max - row_max), 0)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        cols = start + lanes
        v = tl.load(x + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        tl.store(out + cols, _exp(v - row_max) / row_sum, mask=cols < N)
