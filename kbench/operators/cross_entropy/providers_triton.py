"""Cross-entropy in Triton: out of place, and with the gradients of the logits over the logits.

The kernels are in `triton_kernels.py`. This file decides how to launch them, by the number of rows, their length, and their
dtype. The limits come from measurements on an H200. An access is 16 bytes of one thread. Importing it does not need Triton.
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from kbench.contract.provider import Unsupported
from kbench.kernels.libraries import add_in_place
from kbench.kernels.matrices import dense, dense_like, new_rows
from kbench.kernels.triton_launch import (
    HELD_BYTES,
    Division,
    Launch,
    Launcher,
    Matrix,
    Words,
    few_programs,
    held_whole,
    matrix_of,
    power_of_two,
    rows_in_steps,
    rows_launch,
    rows_together,
    sliced_rows,
    span_of,
    waiting_rows,
    whole_rows,
)
from kbench.operators.cross_entropy.operator import cross_entropy

MOST_SLICES = 128
"""The most slices of a row whose programs do not wait for each other."""

ONE_STEP_BYTES = 2**14
"""The forward pass reads a row of at most this many bytes in one step, and a longer row in several."""

THREADS_A_PROCESSOR = 2048
"""The programs of up to this many threads, and of 128 to 1024 each, hold all rows of the forward pass at once if the rows are
few. Otherwise a program has 256 threads, or 128 if rows begin anywhere."""

FOUR_PIECES_BYTES = 2**16
"""In steps of 256 threads, a thread has 4 accesses for rows of up to so many bytes, and 2 for longer rows."""

SPLIT_ROWS = ((2**14, 0), (2**16, 0.7), (math.inf, 1.5))
"""The forward pass splits rows of up to so many lanes if there are fewer rows than this on each multiprocessor. One program is
faster with a short row: programs that share it wait for its words in memory."""

PROGRAMS_A_PROCESSOR = 8
"""It splits them until each multiprocessor has so many programs, of 128 threads each."""

FEW_THREADS = 1024
"""With gradients, a row that one program holds has 4 accesses a thread if that takes at most so many threads of each
multiprocessor, otherwise 8. With label smoothing, 8 accesses of 16-bit elements would take more registers than there are."""


def losses(
    loss: Tensor, saved: Tensor, logits: Tensor, labels: Tensor, smoothing: float, slices: int | None = None
) -> Launch:
    """The launch of the forward pass. `slices` replaces the number of slices of a row."""
    from kbench.operators.cross_entropy import triton_kernels as kernels

    x, smooth = matrix_of(logits), smoothing != 0
    division = divide_losses(x, slices)
    constants = {
        "SMOOTH": smooth,
        **division.constants,
        "PIECES": division.step,
        "VEC": x.vector,
        "EDGES": x.edges,
        "PACKED": x.packed,
    }
    words_of_row = 1 + division.slices * (2 if smooth else 1)
    words = Words(x.rows * words_of_row, ("cross-entropy", words_of_row)) if division.slices > 1 else None
    numbers = (logits.stride(0), x.rows, x.columns, smoothing, division.slices, division.span, division.loops)
    programs = math.ceil(x.rows / division.together) * division.slices
    return Launch(kernels.losses, programs, numbers, constants, {"num_warps": division.warps}, words)


def divide_losses(x: Matrix, slices: int | None = None) -> Division:
    """How rows are divided in the forward pass, which holds no elements."""
    if slices is None:
        slices = 1
        few_rows = x.processors.multiprocessors * next(rows for lanes, rows in SPLIT_ROWS if x.lanes <= lanes)
        if x.rows < few_rows:
            most = math.ceil(PROGRAMS_A_PROCESSOR * x.processors.multiprocessors / x.rows)
            slices = min(MOST_SLICES, most, math.ceil(x.lanes / (2 * x.vector * 128)))
            slices = math.ceil(x.lanes / span_of(x.lanes, slices))
    if slices > 1:
        division = sliced_rows(x, 2, slices)
        return division._replace(blocks=0, step=min(4, division.blocks))
    if x.row_bytes <= ONE_STEP_BYTES:
        # of the three, the one with the fewest idle lanes, and of these the one with the most threads
        divisions = [whole_rows(x, accesses, 4096) for accesses in (4, 8, 16)]
        division = min(divisions, key=lambda division: division.block * division.blocks)
        return division._replace(blocks=0, step=division.blocks)
    threads = 128 if x.edges else 256
    at_once = THREADS_A_PROCESSOR * x.processors.multiprocessors // x.rows
    if at_once >= 128:
        threads = min(1024, 1 << at_once.bit_length() - 1)
    block = x.vector * threads
    most = {128: 4, 256: 4 if x.row_bytes <= FOUR_PIECES_BYTES else 2, 512: 2, 1024: 1}[threads]
    pieces = math.ceil(x.lanes / block / math.ceil(x.lanes / (block * most)))
    return Division(1, block, 0, threads // x.processors.warp_size, 1, span_of(x.lanes, 1), step=pieces)


def gradients(dx: Tensor, d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor, smoothing: float) -> Launch:
    """The launch of the backward pass: two accesses a thread, in 128 threads, or 256 for rows of more than 32 KiB."""
    from kbench.operators.cross_entropy import triton_kernels as kernels

    x = matrix_of(logits, dx)
    warps = (4 if x.row_bytes <= HELD_BYTES else 8) * 32 // x.processors.warp_size
    lanes = power_of_two(x.lanes)
    block = min(lanes, x.vector * x.processors.warp_size * warps)
    pieces = 2 if lanes > block else 1
    together = rows_together(x, 4096)
    slices = math.ceil(x.lanes / (block * pieces))
    constants = {
        "SMOOTH": smoothing != 0,
        "ROWS": together,
        "BLOCK": block,
        "PIECES": pieces,
        "VEC": x.vector,
        "EDGES": x.edges,
        "POLICY": x.load_policy,
    }
    numbers = (dx.stride(0), logits.stride(0), x.rows, x.columns, smoothing, slices)
    programs = math.ceil(x.rows / together) * slices
    return Launch(kernels.logit_gradients, programs, numbers, constants, {"num_warps": warps})


def both(
    loss: Tensor,
    dx: Tensor,
    d_loss: Tensor,
    logits: Tensor,
    labels: Tensor,
    smoothing: float,
    slices: int | None = None,
) -> Launch:
    """The launch of both passes in one. `slices` replaces the number of slices of a row."""
    from kbench.operators.cross_entropy import triton_kernels as kernels

    x, smooth = matrix_of(logits, dx), smoothing != 0
    division = divide_both(x, smooth, slices)
    constants: dict[str, Any] = {"HELD": division.blocks, "PIECES": division.step, "PACKED": x.packed}
    if x.itemsize == 2 and division.slices > 1 and division.registers == 56:
        constants["POLICY"] = ""  # with a policy, this kernel would spill
    shares = (division.slices, division.span, division.loops)
    numbers = (dx.stride(0), logits.stride(0), x.rows, x.columns, smoothing, *shares)
    return rows_launch(kernels.losses_and_gradients, x, division, numbers, {"SMOOTH": smooth, **constants})


def divide_both(x: Matrix, smooth: bool, slices: int | None = None) -> Division:
    """How rows are divided where both passes are one. With label smoothing, a row that no program holds is read twice: programs
    exchange two numbers, and smoothing needs a third."""
    caps, few = x.processors.caps, few_programs(x)
    if slices is None and held_whole(x):
        whole = whole_rows(x, 4)
        threads = x.rows * whole.warps * x.processors.warp_size
        if threads > FEW_THREADS * x.processors.multiprocessors and not (smooth and x.itemsize == 2):
            whole = whole_rows(x, 8)
        if caps and whole.blocks > 4:
            whole = whole._replace(registers=56 if smooth or whole.warps < 4 else 48)
        return whole
    if not smooth and (shared := waiting_rows(x, (4, 8) if few else (8,), slices)):
        if caps and shared.blocks <= 8:
            shared = shared._replace(registers=96 if few else 56 if shared.slices <= 32 and not x.edges else 64)
        return shared
    return rows_in_steps(x, 2 if smooth else 4)


LOSSES, GRADIENTS = Launcher(losses), Launcher(gradients)
BOTH = Launcher(both)


@cross_entropy.provider("triton", requires="triton")
def triton(logits: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
    """Reads the logits once."""
    return triton_saving(logits, labels, smoothing=smoothing)[0]


def triton_saving(logits: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, Tensor]:
    """The losses, and for the backward pass the maximum and the sum of each row, as a tensor (2, M)."""
    M = _rows(logits)
    loss, saved = new_rows(logits, M), new_rows(logits, 2, M)
    LOSSES((loss, saved), (dense(logits), labels.contiguous()), smoothing)
    return loss, saved


@cross_entropy.backward("triton", saves=triton_saving)
def triton_backward(d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor, *, smoothing: float) -> Tensor:
    d_logits = dense_like(logits)
    GRADIENTS((d_logits,), (d_loss.contiguous(), dense(logits), labels.contiguous(), saved), smoothing)
    return d_logits


@cross_entropy.full("triton")
def triton_full(d_loss: Tensor, logits: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, Tensor]:
    """Reads the logits once, and writes their gradients once."""
    loss, d_logits = new_rows(logits, _rows(logits)), dense_like(logits)
    BOTH((loss, d_logits), (d_loss.contiguous(), dense(logits), labels.contiguous()), smoothing)
    return loss, d_logits


add_in_place(cross_entropy, "triton")


@cross_entropy.backward("triton-in-place", saves=triton_saving, mutates="logits")
def triton_backward_in_place(
    d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor, *, smoothing: float
) -> None:
    GRADIENTS((), (logits, d_loss.contiguous(), logits, labels.contiguous(), saved), smoothing)


@cross_entropy.full("triton-in-place", mutates="logits")
def triton_full_in_place(d_loss: Tensor, logits: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, None]:
    """Reads the logits once, and writes their gradients over them."""
    loss = new_rows(logits, _rows(logits))
    BOTH((loss,), (logits, d_loss.contiguous(), logits, labels.contiguous()), smoothing)
    return loss, None


def _rows(logits: Tensor) -> int:
    """Raises Unsupported if rows are empty: they have no label."""
    M, N = logits.shape
    if not N:
        raise Unsupported("a row has no logits")
    return M
