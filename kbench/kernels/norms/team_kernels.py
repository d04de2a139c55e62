# mypy: ignore-errors
"""A Triton kernel for the gradients of a normalisation whose rows are too long for one program. `backward_kernels.py` says
what the functions of an operator and the arguments are."""

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
from kbench.kernels.norms.exchange import gather, next_mark, publish, ticket


@triton.jit(do_not_specialize=["M", "slices", "span"])
def team(
    dx,
    partial,
    words,
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
    COLUMN_TERMS: tl.constexpr,
    GRADIENT: tl.constexpr,
    BLOCK: tl.constexpr,
    PIECES: tl.constexpr,
    PACKED: tl.constexpr,
    WIDTH: tl.constexpr,
    VEC: tl.constexpr,
    FULL: tl.constexpr,
    TICKETS: tl.constexpr,
    PDL: tl.constexpr,
    PHASE: tl.constexpr = 0,
):
    """`slices` programs form a team, and each has `span` columns of the team's rows. It keeps the column sums in registers,
    and writes them to the team's row of each matrix in `partial`, (teams, N). Grid: teams * slices.

    The programs of a team exchange their sums over a row through `words`. The next row is loaded before that.
    """
    pid = tl.program_id(0)
    if TICKETS:
        pid = ticket(words)
    words += 16
    part = pid % slices
    teams = tl.num_programs(0) // slices
    start = part * span // VEC * VEC
    end = tl.minimum(start + span, N)
    one = tl.zeros((1, 1), tl.int32)
    scale = load_scale(weight, start, end, BLOCK, PIECES, VEC, FULL)
    totals = no_totals(PIECES * len(partial), 1, BLOCK)
    row = (pid // slices).to(tl.int64) + one
    ahead = load_pieces(inputs, strides, statistics, row, M, start, end, 1, BLOCK, PIECES, VEC, FULL)
    for i in tl.range(pid // slices, M, teams):
        row = tl.cast(i, tl.int64) + one
        team_words = words + tl.cast(i, tl.int64) * slices
        own = team_words + part + one
        mark = next_mark(own, PHASE)
        found = ahead[0]
        pieces = ahead[1]
        following = tl.cast(tl.minimum(i + teams, M - 1), tl.int64) + one
        ahead = load_pieces(inputs, strides, statistics, following, M, start, end, 1, BLOCK, PIECES, VEC, FULL)
        sums = sum_row_terms(found, pieces, scale, NORMALISED, ROW_TERMS, PIECES)
        if PHASE != 2:
            publish(own, sums, mark)
        if PHASE != 1:
            sums = gather(team_words, slices, mark, len(sums), WIDTH)
            totals = write_gradients(
                dx, found, pieces, scale, sums, totals, row, M, N, start, end,
                NORMALISED, COLUMN_TERMS, GRADIENT, False, PACKED, 1, BLOCK, PIECES, VEC, FULL,
            )  # fmt: skip
    if PDL:
        cuda.gdc_launch_dependents()
    if PHASE != 1:
        write_totals(partial, totals, pid // slices, N, start, end, BLOCK, PIECES, VEC, FULL)
