# mypy: ignore-errors
"""Triton kernels for the gradients of a normalisation whose programs take some columns of many rows. `backward_kernels.py` says
what the functions of an operator and the arguments are."""

import triton
import triton.language as tl

from kbench.kernels.norms.tiles import add_terms, as_float, block, load, load_each, row_sums, starts


@triton.jit(do_not_specialize=["M", "slices", "span"])
def mean_slices(
    means,
    inputs,
    statistics,
    weight,
    strides,
    M,
    N,
    slices,
    span,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    BLOCK: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Each program sums the row terms over `span` columns of a row, and writes the sums divided by N to (M, slices) matrices.
    For rows that registers cannot hold. Grid: M * slices."""
    pid = tl.program_id(0)
    row = (pid // slices).to(tl.int64)
    start = pid % slices * span // VEC * VEC  # otherwise the compiler would not know that vectors are aligned
    end = tl.minimum(start + span, N)
    found = load_each(statistics, row + tl.zeros((1, 1), tl.int32), True, True)
    pointers = starts(inputs, strides, row, VEC)
    totals = ()
    for _ in tl.static_range(len(means)):
        totals = totals + (tl.zeros((1, BLOCK), tl.float32),)  # noqa: RUF005
    for first in tl.range(start, end, BLOCK, num_stages=STAGES):
        columns, mask = block(0, 1, first, end, 1, BLOCK, VEC)
        values = as_float(load_each(pointers, columns, mask, False))
        scale = load(weight + columns, mask, False).to(tl.float32)
        totals = add_terms(totals, ROW_TERMS(values[0] * scale, NORMALISED(values[1], found)), mask, False)
    sums = row_sums(totals)
    for i in tl.static_range(len(means)):
        tl.store(means[i] + pid + tl.zeros((1, 1), tl.int32), sums[i] / N)


@triton.jit
def column_strip(
    dx,
    outputs,
    means,
    inputs,
    statistics,
    weight,
    strides,
    start,
    end,
    N,
    first,
    slices,
    NORMALISED: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    STEP: tl.constexpr,
    WIDTH: tl.constexpr,
    SLICES: tl.constexpr,
    VEC: tl.constexpr,
):
    """Write the sums of the column terms over the rows from `start` to `end`, for WIDTH columns from `first` on. With `means`,
    which `mean_slices` wrote, write the gradients of these elements too."""
    columns, inside = block(0, 1, first, N, 1, WIDTH, VEC)
    members = tl.arange(0, SLICES)[None, :]
    totals = ()
    for _ in tl.static_range(len(outputs)):
        totals = totals + (tl.zeros((STEP, WIDTH), tl.float32),)  # noqa: RUF005
    if len(means) > 0:
        scale = load(weight + columns, inside, False).to(tl.float32)
    for step in tl.range(start, end, STEP):
        rows = tl.cast(step, tl.int64) + tl.arange(0, STEP)[:, None]
        mask = inside & (rows < end)
        found = load_each(statistics, rows, rows < end, False)
        values = as_float(load_each(starts(inputs, strides, rows, VEC), columns, mask, False))
        normalised = NORMALISED(values[1], found)
        if len(means) > 0:
            row_means = row_sums(load_each(means, rows * slices + members, (rows < end) & (members < slices), False))
            gradient = GRADIENT(values[0] * scale, normalised, row_means, found, values[2:])
            tl.store(dx + rows * (N // VEC * VEC) + columns, gradient, mask=mask)
        totals = add_terms(totals, COLUMN_TERMS(values[0], normalised), mask, True)
    for i in tl.static_range(len(outputs)):
        tl.store(outputs[i] + columns, tl.sum(totals[i], 0, keep_dims=True), mask=inside)


@triton.jit(do_not_specialize=["M", "strips", "chunk", "slices"])
def strips(
    dx,
    partial,
    means,
    inputs,
    statistics,
    weight,
    strides,
    M,
    N,
    strips,
    chunk,
    slices,
    NORMALISED: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    STEP: tl.constexpr,
    WIDTH: tl.constexpr,
    SLICES: tl.constexpr,
    VEC: tl.constexpr,
):
    """Each program takes WIDTH columns of `chunk` rows, and writes its column sums to its row of the matrices in `partial`,
    (chunks, N). The last rows come first: of these, `mean_slices` left the most in the cache. Grid: strips * chunks."""
    pid = tl.num_programs(0) - 1 - tl.program_id(0)
    part = pid // strips
    targets = ()
    for i in tl.static_range(len(partial)):
        targets = targets + (partial[i] + part.to(tl.int64) * N,)  # noqa: RUF005
    end = tl.minimum((part + 1) * chunk, M)
    column_strip(
        dx, targets, means, inputs, statistics, weight, strides, part * chunk, end, N, pid % strips * WIDTH, slices,
        NORMALISED, COLUMN_TERMS, GRADIENT, STEP, WIDTH, SLICES, VEC,
    )  # fmt: skip
