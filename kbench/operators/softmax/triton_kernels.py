# mypy: ignore-errors
"""Triton kernels of the row softmax, forward and backward. `providers_triton.py` chooses among them.

`x` and `y` are (M, N) matrices whose columns are neighbours in memory; `out` and `dx` are dense. Row offsets have 64 bits,
because row * stride passes 2^31 long before memory ends. All kernels compute in float32. Blocks, lanes, VEC, EDGES, and how
programs share a row are explained in kbench/kernels/triton_rows.py. STREAM: stores leave the L2 cache first. POLICY is the
eviction policy of loads.

No kernel tests for special values. `tl.max` skips NaN, but NaN minus anything is NaN, and so is the sum. A row of -inf has a
sum of 0 or of NaN, and so becomes NaN; +inf - +inf is NaN. So the same rows are NaN as in torch."""

import triton
import triton.language as tl

from kbench.kernels.triton_rows import (
    GATHERED,
    SMALLEST,
    block_lanes,
    end_of_vectors,
    first_vectors,
    flushed_exp,
    gather_softmax,
    gather_words,
    load_blocks,
    publish_word,
    row_edges,
    row_maximum,
    row_total,
    still_packed,
    team_of,
    vector_groups,
)


@triton.jit(do_not_specialize=["M"])
def row(out, x, x_stride, M, N, BLOCK: tl.constexpr):
    """The textbook: one program per row, which stays in registers. Grid: M."""
    pid = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    v = tl.load(x + pid * x_stride + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + pid * N + columns, e / tl.sum(e, 0), mask=columns < N)


@triton.jit(do_not_specialize=["M"])
def persistent(out, x, x_stride, M, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Each program strides over the rows. With STAGES > 1 it loads the next rows while it computes one. Grid: any."""
    columns = tl.arange(0, BLOCK)
    for i in tl.range(tl.program_id(0).to(tl.int64), M, tl.num_programs(0), num_stages=STAGES):
        r = tl.cast(i, tl.int64)  # already 64-bit, except in the interpreter
        v = tl.load(x + r * x_stride + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(out + r * N + columns, e / tl.sum(e, 0), mask=columns < N)


@triton.jit(do_not_specialize=["x_stride", "M", "N", "slices", "span"])
def rows_in_registers(
    out,
    x,
    words,
    x_stride,
    M,
    N,
    slices,
    span,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    EDGES: tl.constexpr,
    STREAM: tl.constexpr,
    POLICY: tl.constexpr,
    WIDTH: tl.constexpr,
    TICKETS: tl.constexpr = False,
    PHASE: tl.constexpr = 0,
):
    """A program has ROWS rows in PIECES blocks, or, if WIDTH > 1, a slice of `span` lanes of one row in one block. The programs
    of a row exchange its maximum and its sum. Grid: `slices` programs for every ROWS rows."""
    pid, part, team, mark = team_of(words, slices, WIDTH, TICKETS, PHASE)
    first = part * span // VEC * VEC
    rows = pid.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M if ROWS > 1 else rows == rows  # the second is true, and the compiler knows it
    source, head = first_vectors(x, rows, x_stride, VEC, EDGES)
    target, _ = first_vectors(out, rows, N, VEC, EDGES)
    end = end_of_vectors(N, head, first + span if WIDTH > 1 else PIECES * BLOCK, VEC, EDGES)
    if WIDTH > 1:  # lanes count from the slice: a lane is then a constant away from a pointer, which takes no register
        source, target, head, end = source + first, target + first, head - first, end - first
    if EDGES:
        columns, on_edge = row_edges(rows * x_stride, N, inside, part, VEC)
        edges = tl.load(x + rows * x_stride + columns, mask=on_edge, other=-float("inf")).to(tl.float32)
    blocks = load_blocks(source, 0, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, EDGES, POLICY)
    values = (blocks[0].to(tl.float32),)
    top = values[0]
    for p in tl.static_range(1, PIECES):
        values = values + (blocks[p].to(tl.float32),)  # noqa: RUF005 Triton has no other way to append
        top = tl.maximum(top, values[p])
    row_max = row_maximum(top)
    if EDGES:
        row_max = tl.maximum(row_max, row_maximum(edges))
    if WIDTH > 1:
        row_max = tl.maximum(row_max, SMALLEST)  # a slice of -inf in a finite row must add nothing to the sum, not NaN
    exponentials = (flushed_exp(values[0] - row_max),)
    total = exponentials[0]
    for p in tl.static_range(1, PIECES):
        exponentials = exponentials + (flushed_exp(values[p] - row_max),)  # noqa: RUF005
        total += exponentials[p]
    row_sum = row_total(total)
    if EDGES:
        edges = flushed_exp(edges - row_max)
        row_sum += row_total(edges)
    scale = 1 / row_sum
    if WIDTH > 1:
        if PHASE != 2:
            publish_word(team + part, row_max, row_sum, mark)
        if PHASE != 1:
            slice_max = row_max
            row_max, row_sum = gather_softmax(team, slices, mark, WIDTH, WIDTH)
            scale = flushed_exp(slice_max - row_max) / row_sum
    if PHASE != 1:
        if EDGES:
            tl.store(out + rows * N + columns, edges * scale, mask=on_edge)
        for p in tl.static_range(PIECES):
            lanes, mask = block_lanes(p * BLOCK, end, inside, head, BLOCK, VEC, EDGES)
            tl.store(target + lanes, exponentials[p] * scale, mask, cache_modifier=".cs" if STREAM else "")


@triton.jit(do_not_specialize=["M"])
def rows_read_twice(out, x, x_stride, M, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """One program per row. It reads the row twice, in pieces of BLOCK: for rows that registers cannot hold. Grid: M.

    Every lane keeps the maximum and the sum of its own columns (Milakov and Gimelshein, "Online normalizer calculation for
    softmax", 2018). So the loop has no reduction across threads; the lanes are combined once, after it.
    """
    pid = tl.program_id(0).to(tl.int64)
    x += pid * x_stride
    out += pid * N
    lanes = tl.arange(0, BLOCK)

    lane_max = tl.full((BLOCK,), -float("inf"), tl.float32)
    lane_sum = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        columns = start + lanes
        v = tl.load(x + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
        new_max = tl.maximum(lane_max, v)
        # a lane that has seen only -inf must keep a sum of zero; NaN would make the whole row NaN
        shift = tl.where(new_max == -float("inf"), 0.0, new_max)
        lane_sum = lane_sum * flushed_exp(lane_max - shift) + flushed_exp(v - shift)
        lane_max = new_max

    row_max = tl.max(lane_max, 0)
    row_sum = tl.sum(lane_sum * flushed_exp(lane_max - row_max), 0)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        columns = start + lanes
        v = tl.load(x + columns, mask=columns < N, other=-float("inf")).to(tl.float32)
        tl.store(out + columns, flushed_exp(v - row_max) / row_sum, mask=columns < N)


@triton.jit
def _add_products(total, y_blocks, dy_blocks, VEC: tl.constexpr):
    """Add the products of blocks to the running sum of each group of lanes."""
    for p in tl.static_range(len(y_blocks)):
        total += tl.sum(vector_groups(y_blocks[p], VEC) * vector_groups(dy_blocks[p], VEC), 2)
    return total


@triton.jit
def _store_gradients(
    target, y_blocks, dy_blocks, first, end, inside, head, row_sum, VEC: tl.constexpr, EDGES: tl.constexpr
):
    BLOCK: tl.constexpr = y_blocks[0].shape[1]
    for p in tl.static_range(len(y_blocks)):
        lanes, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, EDGES)
        tl.store(target + lanes, y_blocks[p].to(tl.float32) * (dy_blocks[p].to(tl.float32) - row_sum), mask)


@triton.jit(do_not_specialize=["dy_stride", "y_stride", "M", "N", "slices", "span", "loops"])
def softmax_gradients(
    dx,
    dy,
    y,
    words,
    dy_stride,
    y_stride,
    M,
    N,
    slices,
    span,
    loops,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    HELD: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    EDGES: tl.constexpr,
    POLICY: tl.constexpr,
    PACKED: tl.constexpr,
    TICKETS: tl.constexpr = False,
    PHASE: tl.constexpr = 0,
):
    """The backward pass: dx = y * (dy - sum(dy * y)). Rows of dy and of y may be any number of elements apart, as long as their
    first elements have the same distance from a multiple of VEC. Grid: `slices` programs for every ROWS rows.

    A program has a slice of `span` lanes. It reads most of a long slice in `loops` steps of PIECES blocks, and reads those
    blocks again for the gradients, the latest first. The last HELD blocks of the slice stay in registers. If WIDTH > 1, the
    programs of a row exchange their sums.
    """
    pid, part, team, mark = team_of(words, slices, WIDTH, TICKETS, PHASE)
    rows = pid.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M if ROWS > 1 else rows == rows  # the second is true, and the compiler knows it
    ys, head = first_vectors(y, rows, y_stride, VEC, EDGES)
    dys, _ = first_vectors(dy, rows, dy_stride, VEC, EDGES)
    target, _ = first_vectors(dx, rows, N, VEC, EDGES)
    slice_start = part * span // VEC * VEC
    end = end_of_vectors(N, head, slice_start + span, VEC, EDGES)
    held_start = slice_start + loops * (PIECES * BLOCK)
    if EDGES:
        columns, on_edge = row_edges(rows * y_stride, N, inside, part, VEC)
        y_edges = tl.load(y + rows * y_stride + columns, mask=on_edge, other=0.0).to(tl.float32)
        dy_edges = tl.load(dy + rows * dy_stride + columns, mask=on_edge, other=0.0).to(tl.float32)
    total = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    SECOND: tl.constexpr = "evict_first" if POLICY == "evict_last" else ""
    if PIECES > 0:
        for i in tl.range(0, loops):
            first = slice_start + i * (PIECES * BLOCK)
            y_blocks = load_blocks(ys, first, end, inside, head, 0.0, PIECES, BLOCK, VEC, EDGES, POLICY)
            dy_blocks = load_blocks(dys, first, end, inside, head, 0.0, PIECES, BLOCK, VEC, EDGES, POLICY)
            total = _add_products(total, y_blocks, dy_blocks, VEC)
    y_held = load_blocks(ys, held_start, end, inside, head, 0.0, HELD, BLOCK, VEC, EDGES, POLICY)
    dy_held = load_blocks(dys, held_start, end, inside, head, 0.0, HELD, BLOCK, VEC, EDGES, POLICY)
    total = _add_products(total, y_held, dy_held, VEC)
    row_sum = row_total(total)
    if EDGES:
        row_sum += row_total(y_edges * dy_edges)
    if WIDTH > 1:
        if PHASE != 2:
            publish_word(team + part + tl.zeros((ROWS, 1), tl.int32), row_sum, tl.zeros((ROWS, 1), tl.float32), mark)
        if PHASE != 1:
            row_sum = 0.0  # a number: the compiler may move blocks to a tensor's layout
            for first in tl.static_range(0, WIDTH, GATHERED):
                sums, _, exist = gather_words(team + first, slices - first, mark, GATHERED)
                row_sum += tl.sum(tl.where(exist, sums, 0.0), 0)
    if PHASE != 1:
        zero = (row_sum != row_sum).to(tl.int16)
        y_held, dy_held = still_packed(y_held, zero, PACKED), still_packed(dy_held, zero, PACKED)
        _store_gradients(target, y_held, dy_held, held_start, end, inside, head, row_sum, VEC, EDGES)
        if PIECES > 0:
            for i in tl.range(0, loops):
                first = held_start - (i + 1) * (PIECES * BLOCK)
                y_blocks = load_blocks(ys, first, end, inside, head, 0.0, PIECES, BLOCK, VEC, EDGES, SECOND)
                dy_blocks = load_blocks(dys, first, end, inside, head, 0.0, PIECES, BLOCK, VEC, EDGES, SECOND)
                _store_gradients(target, y_blocks, dy_blocks, first, end, inside, head, row_sum, VEC, EDGES)
        if EDGES:
            tl.store(dx + rows * N + columns, y_edges * (dy_edges - row_sum), mask=on_edge)
