# mypy: ignore-errors
"""The backward pass of the row softmax in Triton: `dx = y * (dy - sum(dy * y))`.

Blocks, lanes, VEC and WINDOW are explained in kbench/kernels/row_slices.py. Rows of dy and of y may be any number of elements
apart, as long as their first elements have the same distance from a multiple of VEC. All is computed in float32.
"""

import triton
import triton.language as tl

from kbench.kernels.row_slices import (
    GATHERED,
    block_lanes,
    end_of_vectors,
    first_vectors,
    gather_words,
    load_blocks,
    publish_word,
    row_ends,
    row_total,
    still_packed,
    take_ticket,
    vector_groups,
    word_mark,
)


@triton.jit
def _add_products(total, y_blocks, dy_blocks, COUNT: tl.constexpr, VEC: tl.constexpr):
    """Add the products of COUNT blocks to the running sum of each group of lanes."""
    for p in tl.static_range(COUNT):
        total += tl.sum(vector_groups(y_blocks[p], VEC) * vector_groups(dy_blocks[p], VEC), 2)
    return total


@triton.jit
def _store_gradients(
    target,
    y_blocks,
    dy_blocks,
    first,
    end,
    inside,
    head,
    row_sum,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    WINDOW: tl.constexpr,
    STREAM: tl.constexpr,
):
    for p in tl.static_range(COUNT):
        lanes, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, WINDOW)
        g = y_blocks[p].to(tl.float32) * (dy_blocks[p].to(tl.float32) - row_sum)
        tl.store(target + lanes, g, mask, cache_modifier=".cs" if STREAM else "")


@triton.jit(do_not_specialize=["dy_stride", "y_stride", "M", "N", "parts", "span", "loops"])
def softmax_gradients(
    dx,
    dy,
    y,
    dy_stride,
    y_stride,
    M,
    N,
    words,
    parts,
    span,
    loops,
    TICKETS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    HELD: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    WINDOW: tl.constexpr,
    STREAM: tl.constexpr,
    POLICY: tl.constexpr,
    PACKED: tl.constexpr,
    PHASE: tl.constexpr = 0,
):
    """dx is dense. Grid: `parts` programs for every ROWS rows.

    A program has a slice of `span` lanes. It reads most of a long slice in `loops` steps of PIECES blocks, and reads those
    blocks again for the gradients, the latest first. The last HELD blocks of the slice stay in registers. If WIDTH > 1, the
    programs of a row exchange their sums through `words`. The docstring of `split` in `triton_kernels.py` explains the words,
    TICKETS and PHASE. POLICY is the eviction policy of loads.
    """
    pid = take_ticket(words, TICKETS)
    part = 0
    if WIDTH > 1:
        part = pid % parts
        words += 16 + (pid - part)
        mark = word_mark(words + part)
        if PHASE != 2:
            mark = 1 - mark
        pid = pid // parts
    rows = pid.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M if ROWS > 1 else rows == rows  # the second is true, and the compiler knows it
    ys, head = first_vectors(y, rows, y_stride, VEC, WINDOW)
    dys, _ = first_vectors(dy, rows, dy_stride, VEC, WINDOW)
    target, _ = first_vectors(dx, rows, N, VEC, WINDOW)
    slice_start = part * span // VEC * VEC
    end = end_of_vectors(N, head, slice_start + span, VEC, WINDOW)
    held_start = slice_start + loops * (PIECES * BLOCK)
    if WINDOW:
        ends, on_end = row_ends(rows * y_stride, N, VEC)
        on_end &= inside & (part == 0)
        y_ends = tl.load(y + rows * y_stride + ends, mask=on_end, other=0.0).to(tl.float32)
        dy_ends = tl.load(dy + rows * dy_stride + ends, mask=on_end, other=0.0).to(tl.float32)
    total = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    SECOND: tl.constexpr = "evict_first" if POLICY == "evict_last" else ""
    if PIECES > 0:
        for i in tl.range(0, loops):
            first = slice_start + i * (PIECES * BLOCK)
            y_blocks = load_blocks(ys, first, end, inside, head, 0.0, PIECES, BLOCK, VEC, WINDOW, POLICY)
            dy_blocks = load_blocks(dys, first, end, inside, head, 0.0, PIECES, BLOCK, VEC, WINDOW, POLICY)
            total = _add_products(total, y_blocks, dy_blocks, PIECES, VEC)
    y_held = load_blocks(ys, held_start, end, inside, head, 0.0, HELD, BLOCK, VEC, WINDOW, POLICY)
    dy_held = load_blocks(dys, held_start, end, inside, head, 0.0, HELD, BLOCK, VEC, WINDOW, POLICY)
    total = _add_products(total, y_held, dy_held, HELD, VEC)
    row_sum = row_total(total)
    if WINDOW:
        row_sum += row_total(y_ends * dy_ends)
    if WIDTH > 1:
        if PHASE != 2:
            publish_word(words + part + tl.zeros((ROWS, 1), tl.int32), row_sum, tl.zeros((ROWS, 1), tl.float32), mark)
        if PHASE != 1:
            row_sum = 0.0  # a number: the compiler may move blocks to a tensor's layout
            for first in tl.static_range(0, WIDTH, GATHERED):
                sums, _, there = gather_words(words + first, parts - first, mark, GATHERED)
                row_sum += tl.sum(tl.where(there, sums, 0.0), 0)
    if PHASE != 1:
        zero = (row_sum != row_sum).to(tl.int16)
        y_held, dy_held = still_packed(y_held, zero, HELD, PACKED), still_packed(dy_held, zero, HELD, PACKED)
        _store_gradients(
            target, y_held, dy_held, held_start, end, inside, head, row_sum, HELD, BLOCK, VEC, WINDOW, STREAM
        )
        if PIECES > 0:
            for i in tl.range(0, loops):
                first = held_start - (i + 1) * (PIECES * BLOCK)
                y_blocks = load_blocks(ys, first, end, inside, head, 0.0, PIECES, BLOCK, VEC, WINDOW, SECOND)
                dy_blocks = load_blocks(dys, first, end, inside, head, 0.0, PIECES, BLOCK, VEC, WINDOW, SECOND)
                _store_gradients(
                    target, y_blocks, dy_blocks, first, end, inside, head, row_sum, PIECES, BLOCK, VEC, WINDOW, STREAM
                )
        if WINDOW:
            tl.store(dx + rows * N + ends, y_ends * (dy_ends - row_sum), mask=on_end)
