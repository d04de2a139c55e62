# mypy: ignore-errors
"""Triton kernels of cross-entropy: losses, gradients of the logits, and both at once. `providers_triton.py` chooses the
constants of a launch.

`x` are the logits, an (M, N) matrix whose rows are `x_stride` elements apart and whose columns are neighbours. Row offsets have
64 bits. All compute in float32. Blocks, lanes, VEC, EDGES, and how programs share a row are explained in
kbench/kernels/triton_rows.py. POLICY is the eviction policy of loads.

No kernel tests for special values. A row with NaN or +inf has a sum that is NaN, and a row of -inf has a sum of 0. A label that
is not a column makes the loss NaN, and reads nothing.
"""

import triton
import triton.language as tl

from kbench.kernels.triton_rows import (
    GATHERED,
    SMALLEST,
    add_exponentials,
    block_lanes,
    end_of_vectors,
    first_vectors,
    flushed_exp,
    gather_softmax,
    gather_words,
    joined,
    load_blocks,
    publish_word,
    row_edges,
    row_maximum,
    row_total,
    still_packed,
    team_of,
    vector_groups,
)

UNSPECIALIZED = ["x_stride", "dx_stride", "M", "N", "slices", "span", "loops"]
"""Arguments that Triton must not compile a kernel for."""


@triton.jit
def plain_sum(plain, blocks, first, end, inside, head, BLOCK: tl.constexpr, VEC: tl.constexpr, EDGES: tl.constexpr):
    """Adds the logits of the blocks to `plain`, for label smoothing."""
    for p in tl.static_range(len(blocks)):
        _, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, EDGES)
        plain += tl.sum(tl.where(vector_groups(mask, VEC) != 0, vector_groups(blocks[p], VEC), 0.0), 2)
    return plain


@triton.jit
def with_edges(row_max, row_sum, row_plain, edges, on_edge, SMOOTH: tl.constexpr):
    """The maximum of a row, its sum of exp(x - maximum) and, for label smoothing, its sum of logits, with the edges."""
    highest = tl.maximum(row_max, row_maximum(edges))
    row_sum = row_sum * flushed_exp(row_max - highest) + row_total(flushed_exp(edges - highest))
    if SMOOTH:
        row_plain += row_total(tl.where(on_edge, edges, 0.0))
    return highest, row_sum, row_plain


@triton.jit
def row_loss(row_max, row_sum, row_plain, label_logit, N, smoothing, SMOOTH: tl.constexpr):
    """The loss of a row with this maximum, this sum of exp(x - maximum), this sum of logits, and this logit of its label."""
    log_sum = tl.log(row_sum)
    loss = row_max - label_logit + log_sum
    if SMOOTH:
        loss = (1 - smoothing) * loss + smoothing * (row_max - row_plain / N + log_sum)
    return loss


@triton.jit(do_not_specialize=[*UNSPECIALIZED, "smoothing"])
def losses(
    loss,
    saved,
    x,
    labels,
    words,
    x_stride,
    M,
    N,
    smoothing,
    slices,
    span,
    loops,
    SMOOTH: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    EDGES: tl.constexpr,
    PACKED: tl.constexpr,
):
    """The loss of each row, and in `saved`, (2, M), its maximum and its sum for the backward pass. Grid: `slices` programs for
    every ROWS rows.

    A program reads a slice of `span` lanes, in `loops` steps of PIECES blocks. If WIDTH > 1, several programs share a row. Each
    writes its results to `words`, and the one that comes last joins them, always in the same order. A row has a counter,
    which the last program sets to zero again, then a word for each program, or two if SMOOTH.
    """
    pid = tl.program_id(0)
    part = 0
    if WIDTH > 1:
        part = pid % slices
        pid = pid // slices
    rows = pid.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    label = tl.load(labels + rows, mask=inside, other=0)
    start = rows * x_stride
    source, head = first_vectors(x, rows, x_stride, VEC, EDGES)
    slice_start = part * span // VEC * VEC
    end = end_of_vectors(N, head, slice_start + span, VEC, EDGES)
    top = tl.full((ROWS, BLOCK // VEC), SMALLEST, tl.float32)
    total = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    plain = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    for i in tl.range(0, loops):
        first = slice_start + i * (PIECES * BLOCK)
        blocks = load_blocks(source, first, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, EDGES, "")
        if SMOOTH:
            plain = plain_sum(plain, blocks, first, end, inside, head, BLOCK, VEC, EDGES)
        top, total = add_exponentials(top, total, blocks, VEC, PACKED)
    # not before the loop: its loads would wait for the label
    exists = (label >= 0) & (label < N)
    label_logit = tl.load(x + start + label, mask=inside & exists, other=float("nan")).to(tl.float32)
    row_max, row_sum = joined(top, total)
    row_plain = row_total(plain)
    if EDGES:
        columns, on_edge = row_edges(start, N, inside, part, VEC)
        edges = tl.load(x + start + columns, mask=on_edge, other=-float("inf")).to(tl.float32)
        row_max, row_sum, row_plain = with_edges(row_max, row_sum, row_plain, edges, on_edge, SMOOTH)
    last = True
    if WIDTH > 1:
        words += pid.to(tl.int64) * (1 + slices * (2 if SMOOTH else 1))
        none = tl.zeros((ROWS, 1), tl.int32)
        own_words = words + 1 + part + none
        publish_word(own_words, row_max, row_sum, none)
        if SMOOTH:
            publish_word(own_words + slices, row_plain, row_sum, none)
        last = tl.atomic_add(words, 1, sem="acq_rel") == slices - 1
    if last:
        if WIDTH > 1:
            maxima, sums, exist = gather_words(words + 1, slices, 0, WIDTH)
            maxima, sums = tl.where(exist, maxima, SMALLEST), tl.where(exist, sums, 0.0)
            row_max, row_sum = joined(maxima[None, :], sums[None, :])
            if SMOOTH:
                plains, _, exist = gather_words(words + 1 + slices, slices, 0, WIDTH)
                row_plain = row_total(tl.where(exist, plains, 0.0)[None, :])
            tl.store(words, 0)
        tl.store(loss + rows, row_loss(row_max, row_sum, row_plain, label_logit, N, smoothing, SMOOTH), mask=inside)
        tl.store(saved + rows, row_max, mask=inside)
        tl.store(saved + M + rows, row_sum, mask=inside)


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
    VEC: tl.constexpr,
    EDGES: tl.constexpr,
):
    """Store the gradients of blocks, but for those of labels."""
    BLOCK: tl.constexpr = blocks[0].shape[1]
    for p in tl.static_range(len(blocks)):
        lanes, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, EDGES)
        tl.store(target + lanes, _gradient(blocks[p], row_max, scale, less, SMOOTH), mask)


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
    slices,
    SMOOTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    EDGES: tl.constexpr,
    POLICY: tl.constexpr,
):
    """The gradients of the logits, from what `losses` saved. dx may be x. Grid: `slices` programs for every ROWS rows, each
    with PIECES blocks."""
    pid = tl.program_id(0)
    part = pid % slices
    rows = (pid // slices).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    source, head = first_vectors(x, rows, x_stride, VEC, EDGES)
    target, _ = first_vectors(dx, rows, dx_stride, VEC, EDGES)
    first = part * (BLOCK * PIECES)
    end = end_of_vectors(N, head, first + BLOCK * PIECES, VEC, EDGES)
    blocks = load_blocks(source, first, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, EDGES, POLICY)
    if EDGES:
        columns, on_edge = row_edges(rows * x_stride, N, inside, part, VEC)
        edges = tl.load(x + rows * x_stride + columns, mask=on_edge, other=-float("inf"))
    label = tl.load(labels + rows, mask=inside, other=0)
    row_max = tl.load(saved + rows, mask=inside, other=0.0)
    row_sum = tl.load(saved + M + rows, mask=inside, other=1.0)
    d = tl.load(d_loss + rows, mask=inside, other=0.0)
    scale, less, label_share = d / row_sum, d * (smoothing / N), d * (1 - smoothing)
    for p in tl.static_range(PIECES):
        lanes, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, EDGES)
        g = _gradient(blocks[p], row_max, scale, less, SMOOTH)
        g = tl.where(lanes == label + head, g - label_share, g)
        tl.store(target + lanes, g, mask)
    if EDGES:
        g = _gradient(edges, row_max, scale, less, SMOOTH)
        tl.store(dx + rows * dx_stride + columns, tl.where(columns == label, g - label_share, g), mask=on_edge)


@triton.jit(do_not_specialize=[*UNSPECIALIZED, "smoothing"])
def losses_and_gradients(
    loss,
    dx,
    d_loss,
    x,
    labels,
    words,
    dx_stride,
    x_stride,
    M,
    N,
    smoothing,
    slices,
    span,
    loops,
    SMOOTH: tl.constexpr,
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
    """The loss of each row and the gradients of its logits. dx may be x. Grid: `slices` programs for every ROWS rows.

    A program has a slice of `span` lanes. It reads most of a long slice in `loops` steps of PIECES blocks, and reads those
    blocks again for the gradients, the latest first. The last HELD blocks of the slice stay in registers. If WIDTH > 1, the
    programs of a row exchange its maximum and its sum. Not with SMOOTH: then a row has one program.
    """
    pid, part, team, mark = team_of(words, slices, WIDTH, TICKETS, PHASE)
    rows = pid.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M if ROWS > 1 else rows == rows  # the second is true, and the compiler knows it
    start, to = rows * x_stride, rows * dx_stride
    source, head = first_vectors(x, rows, x_stride, VEC, EDGES)
    target, _ = first_vectors(dx, rows, dx_stride, VEC, EDGES)
    slice_start = part * span // VEC * VEC
    end = end_of_vectors(N, head, slice_start + span, VEC, EDGES)
    held_start = slice_start + loops * (PIECES * BLOCK)
    label = tl.load(labels + rows, mask=inside, other=0)
    label = tl.where((label >= 0) & (label < N), label, -1).to(tl.int32)  # -1: it is unknown
    d = tl.load(d_loss + rows, mask=inside, other=0.0)
    if EDGES:
        columns, on_edge = row_edges(start, N, inside, part, VEC)
        edges = tl.load(x + start + columns, mask=on_edge, other=-float("inf")).to(tl.float32)
    top = tl.full((ROWS, BLOCK // VEC), SMALLEST, tl.float32)
    total = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    plain = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    SECOND: tl.constexpr = "evict_first" if POLICY == "evict_last" else ""
    if PIECES > 0:
        for i in tl.range(0, loops):
            first = slice_start + i * (PIECES * BLOCK)
            blocks = load_blocks(source, first, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, EDGES, POLICY)
            if SMOOTH:
                plain = plain_sum(plain, blocks, first, end, inside, head, BLOCK, VEC, EDGES)
            top, total = add_exponentials(top, total, blocks, VEC, False)
    held = load_blocks(source, held_start, end, inside, head, -float("inf"), HELD, BLOCK, VEC, EDGES, POLICY)
    if ROWS > 1:
        tl.debug_barrier()  # otherwise ptxas loads row after row, and each load waits for the work on the row before
    if SMOOTH:
        plain = plain_sum(plain, held, held_start, end, inside, head, BLOCK, VEC, EDGES)
    top, total = add_exponentials(top, total, held, VEC, PACKED)
    label_logit = tl.load(x + start + label, mask=inside & (label >= 0), other=float("nan")).to(tl.float32)
    row_max, row_sum = joined(top, total)
    row_plain = row_total(plain)
    if EDGES:
        row_max, row_sum, row_plain = with_edges(row_max, row_sum, row_plain, edges, on_edge, SMOOTH)
    if WIDTH > 1:
        if PHASE != 2:
            publish_word(team + part + tl.zeros((ROWS, 1), tl.int32), row_max, row_sum, mark)
        if PHASE != 1:
            row_max, row_sum = gather_softmax(team, slices, mark, WIDTH, GATHERED)
    if PHASE != 1:
        held = still_packed(held, (row_sum != row_sum).to(tl.int16), PACKED)  # a row with NaN stays NaN
        scale, less = d / row_sum, d * (smoothing / N)
        _store_gradients(target, held, held_start, end, inside, head, row_max, scale, less, SMOOTH, VEC, EDGES)
        if PIECES > 0:
            for i in tl.range(0, loops):
                first = held_start - (i + 1) * (PIECES * BLOCK)
                blocks = load_blocks(source, first, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, EDGES, SECOND)
                _store_gradients(target, blocks, first, end, inside, head, row_max, scale, less, SMOOTH, VEC, EDGES)
        if EDGES:
            tl.store(dx + to + columns, _gradient(edges, row_max, scale, less, SMOOTH), mask=on_edge)
        # one program of a row owns its label: it stores the loss, and the label's gradient over the one that it stored above
        owner = inside
        if WIDTH > 1:
            lane = tl.maximum(label, 0) + head
            owner &= (lane >= slice_start) & (lane < slice_start + span)
            if EDGES:
                among_edges = row_total((on_edge & (columns == tl.maximum(label, 0))).to(tl.int32)) > 0
                owner = inside & (among_edges | owner & (lane // VEC * VEC >= head) & (lane // VEC * VEC < end))
        g = (flushed_exp(label_logit - row_max) / row_sum - (1 - smoothing) - smoothing / N) * d
        tl.debug_barrier()
        tl.store(dx + to + label, g, mask=owner & (label >= 0))
        tl.store(loss + rows, row_loss(row_max, row_sum, row_plain, label_logit, N, smoothing, SMOOTH), mask=owner)
