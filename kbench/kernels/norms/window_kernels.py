# mypy: ignore-errors
"""A Triton kernel for the gradients of a normalisation of rows that begin anywhere. `backward_kernels.py` says what the
functions of an operator and the arguments are, and `triton_rows.py` how rows that begin anywhere are moved in vectors."""

import triton
import triton.language as tl
from triton.language.extra import cuda

from kbench.kernels.norms.backward_kernels import (
    load_pieces,
    load_scale,
    no_totals,
    sum_row_terms,
    write_gradients,
    write_totals,
)
from kbench.kernels.norms.tiles import add_terms, as_float, head_of, load, load_each, starts
from kbench.kernels.triton_rows import row_edges


@triton.jit
def write_ends(
    target,
    found,
    values,
    weight,
    sums,
    totals,
    N,
    ends,
    at_end,
    NORMALISED: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
):
    """What `write_gradients` does, for the ends of a row."""
    means = ()
    for i in tl.static_range(len(sums)):
        means = means + (sums[i] / N,)  # noqa: RUF005
    values = as_float(values)
    normalised = NORMALISED(values[1], found)
    gradient = GRADIENT(values[0] * weight.to(tl.float32), normalised, means, found, values[2:])
    tl.store(target + ends, gradient, mask=at_end)
    return add_terms(totals, COLUMN_TERMS(values[0], normalised), True, False)


@triton.jit(do_not_specialize=["M"])
def resident_anywhere(
    dx,
    partial,
    inputs,
    statistics,
    weight,
    strides,
    M,
    N,
    NORMALISED: tl.constexpr,
    ROW_TERMS: tl.constexpr,
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    VEC: tl.constexpr,
    STAGES: tl.constexpr,
    PACKED: tl.constexpr,
    PDL: tl.constexpr,
):
    """Each program takes every num_programs-th row, as in `resident`. Grid: a multiple of VEC, so that
    all rows of a program begin in the same lane of a vector. The ends of its rows are a piece of their own, of 2 * VEC columns
    (`triton_rows.py`)."""
    pid = tl.program_id(0)
    head = head_of(pid.to(tl.int64), strides[0], VEC, True)
    end = N + head - (VEC - 1)
    kept = load_scale(weight, 0, end, BLOCK, PIECES, VEC, False, head, True)
    ends, at_end = row_edges(pid.to(tl.int64) * strides[0], N, VEC)
    kept_at_ends = (load(weight + ends, at_end, False),)
    totals = no_totals(PIECES * len(partial), 1, BLOCK)
    totals_at_ends = no_totals(len(partial), 1, 2 * VEC)
    for number in tl.range(pid, M, tl.num_programs(0), num_stages=STAGES):
        row = tl.cast(number, tl.int64)
        found, pieces = load_pieces(
            inputs, strides, statistics, row, M, 0, end, 1, BLOCK, PIECES, VEC, False, head, True
        )
        at_ends = (load_each(starts(inputs, strides, row, 1), ends, at_end, False),)
        sums = add_terms(
            sum_row_terms(found, pieces, kept, NORMALISED, ROW_TERMS, PIECES, True),
            sum_row_terms(found, at_ends, kept_at_ends, NORMALISED, ROW_TERMS, 1, True),
            True,
            False,
        )
        totals = write_gradients(
            dx, found, pieces, kept, sums, totals, row, M, N, 0, end,
            NORMALISED, COLUMN_TERMS, GRADIENT, False, PACKED, 1, BLOCK, PIECES, VEC, False, head, True,
        )  # fmt: skip
        totals_at_ends = write_ends(
            dx + row * N, found, at_ends[0], kept_at_ends[0], sums, totals_at_ends, N, ends, at_end,
            NORMALISED, COLUMN_TERMS, GRADIENT,
        )  # fmt: skip
    if PDL:
        cuda.gdc_launch_dependents()
    write_totals(partial, totals, pid, N, 0, end, BLOCK, PIECES, VEC, False, head, True)
    for i in tl.static_range(len(partial)):
        tl.store(partial[i] + pid.to(tl.int64) * N + ends, totals_at_ends[i], mask=at_end)
