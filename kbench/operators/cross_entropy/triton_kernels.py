# mypy: ignore-errors
"""The forward pass of cross-entropy in Triton, and what its kernels share. `triton_dispatch.py` chooses the constants of a
launch, and `providers_triton.py` launches.

`x` are the logits, an (M, N) matrix whose rows are `x_stride` elements apart and whose columns are neighbours. Row offsets have
64 bits. All compute in float32. Blocks, lanes, VEC and WINDOW are explained in kbench/kernels/row_slices.py.

No kernel tests for special values. A row with NaN or +inf has a sum that is NaN, and a row of -inf has a sum of 0. A label that
is not a column makes the loss NaN, and reads nothing.
"""

import triton
import triton.language as tl

from kbench.kernels.row_slices import (
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
    vector_groups,
)

UNSPECIALIZED = ["x_stride", "dx_stride", "M", "N", "parts", "span", "loops"]
"""Arguments that Triton must not compile a kernel for."""


@triton.jit
def plain_sum(
    plain, blocks, first, end, inside, head, COUNT, BLOCK: tl.constexpr, VEC: tl.constexpr, WINDOW: tl.constexpr
):
    """Adds the logits of COUNT blocks to `plain`, for label smoothing."""
    for p in tl.static_range(COUNT):
        _, mask = block_lanes(first + p * BLOCK, end, inside, head, BLOCK, VEC, WINDOW)
        plain += tl.sum(tl.where(vector_groups(mask, VEC) != 0, vector_groups(blocks[p], VEC), 0.0), 2)
    return plain


@triton.jit
def row_loss(row_max, row_sum, row_plain, wanted, N, smoothing, SMOOTH: tl.constexpr):
    """The loss of a row with this maximum, this sum of exp(x - maximum), this sum of logits, and this logit of its label."""
    log_sum = tl.log(row_sum)
    loss = row_max - wanted + log_sum
    if SMOOTH:
        loss = (1 - smoothing) * loss + smoothing * (row_max - row_plain / N + log_sum)
    return loss


@triton.jit(do_not_specialize=[*UNSPECIALIZED, "smoothing"])
def losses(
    loss,
    saved,
    x,
    labels,
    x_stride,
    M,
    N,
    smoothing,
    words,
    parts,
    span,
    loops,
    SMOOTH: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    WINDOW: tl.constexpr,
    PACKED: tl.constexpr,
):
    """The loss of each row, and in `saved`, (2, M), its maximum and its sum for the backward pass. Grid: `parts` programs for
    every ROWS rows.

    A program reads a slice of `span` lanes, in `loops` steps of PIECES blocks. If WIDTH > 1, several programs share a row. Each
    writes its results to `words`, and the one that comes last joins them, always in the same order. A row has a counter,
    which the last program sets to zero again, then a word for each program, or two if SMOOTH.
    """
    pid = tl.program_id(0)
    part = 0
    if WIDTH > 1:
        part = pid % parts
        pid = pid // parts
    rows = pid.to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = rows < M
    label = tl.load(labels + rows, mask=inside, other=0)
    known = (label >= 0) & (label < N)
    start = rows * x_stride
    source, head = first_vectors(x, rows, x_stride, VEC, WINDOW)
    slice_start = part * span // VEC * VEC
    end = end_of_vectors(N, head, slice_start + span, VEC, WINDOW)
    top = tl.full((ROWS, BLOCK // VEC), SMALLEST, tl.float32)
    total = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    plain = tl.zeros((ROWS, BLOCK // VEC), tl.float32)
    for i in tl.range(0, loops):
        first = slice_start + i * (PIECES * BLOCK)
        blocks = load_blocks(source, first, end, inside, head, -float("inf"), PIECES, BLOCK, VEC, WINDOW, "")
        if SMOOTH:
            plain = plain_sum(plain, blocks, first, end, inside, head, PIECES, BLOCK, VEC, WINDOW)
        top, total = add_exponentials(top, total, blocks, PIECES, VEC, PACKED)
    # not before the loop: loads after it would wait for the label
    wanted = tl.load(x + start + label, mask=inside & known, other=float("nan")).to(tl.float32)
    row_max, row_sum = joined(top, total)
    row_plain = row_total(plain)
    if WINDOW:
        ends, on_end = row_ends(start, N, VEC)
        on_end &= inside & (part == 0)
        end_values = tl.load(x + start + ends, mask=on_end, other=-float("inf")).to(tl.float32)
        before = row_max
        row_max = tl.maximum(row_max, row_maximum(end_values))
        row_sum *= flushed_exp(before - row_max)
        row_sum += row_total(flushed_exp(end_values - row_max))
        if SMOOTH:
            row_plain += row_total(tl.where(on_end, end_values, 0.0))
    last = True
    if WIDTH > 1:
        words += pid.to(tl.int64) * (1 + parts * (2 if SMOOTH else 1))
        none = tl.zeros((ROWS, 1), tl.int32)
        mine = words + 1 + part + none
        publish_word(mine, row_max, row_sum, none)
        if SMOOTH:
            publish_word(mine + parts, row_plain, row_sum, none)
        last = tl.atomic_add(words, 1, sem="acq_rel") == parts - 1
    if last:
        if WIDTH > 1:
            maxima, sums, there = gather_words(words + 1, parts, 0, WIDTH)
            maxima, sums = tl.where(there, maxima, SMALLEST), tl.where(there, sums, 0.0)
            row_max, row_sum = joined(maxima[None, :], sums[None, :])
            if SMOOTH:
                plains, _, there = gather_words(words + 1 + parts, parts, 0, WIDTH)
                row_plain = row_total(tl.where(there, plains, 0.0)[None, :])
            tl.store(words, 0)
        tl.store(loss + rows, row_loss(row_max, row_sum, row_plain, wanted, N, smoothing, SMOOTH), mask=inside)
        tl.store(saved + rows, row_max, mask=inside)
        tl.store(saved + M + rows, row_sum, mask=inside)
