# mypy: ignore-errors
"""Triton kernels of cross-entropy that compute gradients of the logits. See `triton_kernels.py`, which has the forward pass."""

import triton
import triton.language as tl

from kbench.kernels.row_slices import (
    GATHERED,
    SMALLEST,
    add_exponentials,
    block_lanes,
    end_of_vectors,
    first_vectors,
    flushed_exp,
    gather_words,
    joined,
    load_blocks,
    publish_word,
    row_ends,
    row_maximum,
    row_total,
    still_packed,
    take_ticket,
    word_mark,
)
from kbench.operators.cross_entropy.triton_kernels import UNSPECIALIZED, plain_sum, row_loss


@triton.jit
def _gradient(v, row_max, scale, less, SMOOTH: tl.constexpr):
    """The gradient of logits, but for that of the label."""
    g = flushed_exp(v.to(tl.float32) - row_max) * scale
    return g - less if SMOOTH else g


@triton.jit
def _store_gradients(
    target,
    blocks,
    first,
    end,
    inside,
    head,
    row_max,
    scale,
    less,
    SMOOTH: tl.constexpr,
    COUNT: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    WINDOW: tl.constexpr,
    STREAM: tl.constexpr,
):
    """Store the gradients of COUNT blocks, but for those of labels."""
    for p in tl.static_range(COUNT):
        lanes, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, WINDOW)
        g = _gradient(blocks[p], row_max, scale, less, SMOOTH)
        tl.store(target + lanes, g, mask, cache_modifier=".cs" if STREAM else "")


@triton.jit(do_not_specialize=[*UNSPECIALIZED, "smoothing"])
def logit_gradients(
    dx,
    d_loss,
    x,
    labels,
    saved,
    dx_stride,
    x_stride,
    M,
    N,
    smoothing,
    parts,
    SMOOTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    WINDOW: tl.constexpr,
    STREAM: tl.constexpr,
    POLICY: tl.constexpr,
):
    """The gradients of the logits, from what `losses` saved. dx may be x. Grid: `parts` programs for every ROWS rows, each with
    PIECES blocks. POLICY is the eviction policy of loads."""
    pid = tl.program_id(0)
    part = pid % parts
    rows = (pid // parts).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    source, head = first_vectors(x, rows, x_stride, VEC, WINDOW)
    target, _ = first_vectors(dx, rows, dx_stride, VEC, WINDOW)
    first = part * (BLOCK * PIECES)
    end = end_of_vectors(N, head, first + BLOCK * PIECES, VEC, WINDOW)
    blocks = load_blocks(source, first, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, WINDOW, POLICY)
    if WINDOW:
        ends, on_end = row_ends(rows * x_stride, N, VEC)
        on_end &= inside & (part == 0)
        end_values = tl.load(x + rows * x_stride + ends, mask=on_end, other=-float("inf"))
    label = tl.load(labels + rows, mask=inside, other=0)
    row_max = tl.load(saved + rows, mask=inside, other=0.0)
    row_sum = tl.load(saved + M + rows, mask=inside, other=1.0)
    d = tl.load(d_loss + rows, mask=inside, other=0.0)
    scale, less, wanted = d / row_sum, d * (smoothing / N), d * (1 - smoothing)
    for p in tl.static_range(PIECES):
        lanes, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, WINDOW)
        g = _gradient(blocks[p], row_max, scale, less, SMOOTH)
        g = tl.where(lanes == label + head, g - wanted, g)
        tl.store(target + lanes, g, mask, cache_modifier=".cs" if STREAM else "")
    if WINDOW:
        g = _gradient(end_values, row_max, scale, less, SMOOTH)
        tl.store(dx + rows * dx_stride + ends, tl.where(ends == label, g - wanted, g), mask=on_end)


@triton.jit(do_not_specialize=[*UNSPECIALIZED, "smoothing"])
def losses_and_gradients(
    loss,
    dx,
    d_loss,
    x,
    labels,
    dx_stride,
    x_stride,
    M,
    N,
    smoothing,
    words,
    parts,
    span,
    loops,
    SMOOTH: tl.constexpr,
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
    """The loss of each row and the gradients of its logits. dx may be x. Grid: `parts` programs for every ROWS rows.

    A program has a slice of `span` lanes. It reads most of a long slice in `loops` steps of PIECES blocks, and reads those
    blocks again for the gradients, the latest first. The last HELD blocks of the slice stay in registers.

    If WIDTH > 1, the programs of a row exchange maximum and sum through `words`, as softmax's `split` does: its docstring
    explains the words, TICKETS and PHASE. Not with SMOOTH: then a row has one program. POLICY is the eviction policy of loads.
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
    start, to = rows * x_stride, rows * dx_stride
    source, head = first_vectors(x, rows, x_stride, VEC, WINDOW)
    target, _ = first_vectors(dx, rows, dx_stride, VEC, WINDOW)
    slice_start = part * span // VEC * VEC
    end = end_of_vectors(N, head, slice_start + span, VEC, WINDOW)
    held_start = slice_start + loops * (PIECES * BLOCK)
    label = tl.load(labels + rows, mask=inside, other=0)
    label = tl.where((label >= 0) & (label < N), label, -1).to(tl.int32)  # -1: it is unknown
    d = tl.load(d_loss + rows, mask=inside, other=0.0)
    if WINDOW:
        ends, on_end = row_ends(start, N, VEC)
        on_end &= inside & (part == 0)
        end_values = tl.load(x + start + ends, mask=on_end, other=-float("inf")).to(tl.float32)
    top = tl.full((ROWS, BLOCK // VEC), SMALLEST, tl.float32)
    total = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    plain = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    SECOND: tl.constexpr = "evict_first" if POLICY == "evict_last" else ""
    if PIECES > 0:
        for i in tl.range(0, loops):
            first = slice_start + i * (PIECES * BLOCK)
            blocks = load_blocks(source, first, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, WINDOW, POLICY)
            if SMOOTH:
                plain = plain_sum(plain, blocks, first, end, inside, head, PIECES, BLOCK, VEC, WINDOW)
            top, total = add_exponentials(top, total, blocks, PIECES, VEC, False)
    held = load_blocks(source, held_start, end, inside, head, -float("inf"), HELD, BLOCK, VEC, WINDOW, POLICY)
    if SMOOTH:
        plain = plain_sum(plain, held, held_start, end, inside, head, HELD, BLOCK, VEC, WINDOW)
    top, total = add_exponentials(top, total, held, HELD, VEC, PACKED)
    wanted = tl.load(x + start + label, mask=inside & (label >= 0), other=float("nan")).to(tl.float32)
    row_max, row_sum = joined(top, total)
    row_plain = row_total(plain)
    if WINDOW:
        before = row_max
        row_max = tl.maximum(row_max, row_maximum(end_values))
        row_sum *= flushed_exp(before - row_max)
        row_sum += row_total(flushed_exp(end_values - row_max))
        if SMOOTH:
            row_plain += row_total(tl.where(on_end, end_values, 0.0))
    if WIDTH > 1:
        if PHASE != 2:
            publish_word(words + part + tl.zeros((ROWS, 1), tl.int32), row_max, row_sum, mark)
        if PHASE != 1:
            row_max, row_sum = SMALLEST, 0.0  # numbers: the compiler may move blocks to the layout of a tensor
            for first in tl.static_range(0, WIDTH, GATHERED):
                maxima, sums, there = gather_words(words + first, parts - first, mark, GATHERED)
                maxima, sums = tl.where(there, maxima, SMALLEST), tl.where(there, sums, 0.0)
                before = row_max
                row_max = tl.maximum(before, tl.max(maxima, 0))
                row_sum = row_sum * flushed_exp(before - row_max) + tl.sum(sums * flushed_exp(maxima - row_max), 0)
    if PHASE != 1:
        held = still_packed(held, (row_sum != row_sum).to(tl.int16), HELD, PACKED)  # a row with NaN stays NaN
        scale, less = d / row_sum, d * (smoothing / N)
        _store_gradients(
            target, held, held_start, end, inside, head, row_max, scale, less, SMOOTH, HELD, BLOCK, VEC, WINDOW, STREAM
        )
        if PIECES > 0:
            for i in tl.range(0, loops):
                first = held_start - (i + 1) * (PIECES * BLOCK)
                blocks = load_blocks(
                    source, first, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, WINDOW, SECOND
                )
                _store_gradients(
                    target,
                    blocks,
                    first,
                    end,
                    inside,
                    head,
                    row_max,
                    scale,
                    less,
                    SMOOTH,
                    PIECES,
                    BLOCK,
                    VEC,
                    WINDOW,
                    STREAM,
                )
        if WINDOW:
            tl.store(dx + to + ends, _gradient(end_values, row_max, scale, less, SMOOTH), mask=on_end)
        # one program of a row owns its label: it stores the loss, and the label's gradient over the one that it stored above
        owner = inside
        if WIDTH > 1:
            lane = tl.maximum(label, 0) + head
            owner &= (lane >= slice_start) & (lane < slice_start + span)
            if WINDOW:
                on_ends = row_total((on_end & (ends == tl.maximum(label, 0))).to(tl.int32)) > 0
                owner = inside & (on_ends | owner & (lane // VEC * VEC >= head) & (lane // VEC * VEC < end))
        g = (flushed_exp(wanted - row_max) / row_sum - (1 - smoothing) - smoothing / N) * d
        tl.debug_barrier()
        tl.store(dx + to + label, g, mask=owner & (label >= 0))
        tl.store(loss + rows, row_loss(row_max, row_sum, row_plain, wanted, N, smoothing, SMOOTH), mask=owner)
