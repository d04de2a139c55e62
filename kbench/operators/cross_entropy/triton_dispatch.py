"""The launches of cross-entropy in Triton, by the number of rows, their length, and their dtype. Numbers only.

The limits come from measurements on an H200. An access is 16 bytes of one thread.
"""

from __future__ import annotations

import math
from typing import Any

from kbench.kernels.slice_launch import (
    MOST_PARTS,
    Matrix,
    SliceLaunch,
    span_of,
    team,
    waiting_team,
    whole_row,
    words_read,
)
from kbench.kernels.triton_rows import power_of_two

ONE_STEP_BYTES = 2**14
"""The forward pass reads a row of at most this many bytes in one step, and a longer row in several."""

THREADS_A_PROCESSOR = 2048
"""The programs of up to this many threads, and of 128 to 1024 each, hold all rows of the forward pass at once if the rows are
few. Otherwise a program has 256 threads, or 128 if rows begin anywhere."""

FOUR_PIECES_BYTES = 2**16
"""In steps of 256 threads, a thread has 4 accesses for rows of up to so many bytes, and 2 for longer rows."""

SPLIT_ROWS, PROGRAMS_A_PROCESSOR = 1.5, 8
"""The forward pass splits rows if there are fewer than this on each multiprocessor, into this many programs of 128 threads on
each."""

HELD_BYTES = 2**15
"""With gradients, a program holds a row of at most this many bytes in registers. Programs share a longer row."""

FEW_PROGRAMS = 64
"""With gradients, slices have 4 blocks instead of 8 if there would be fewer programs than this."""

FEW_ROWS = 64
"""Up to this many rows, a row that one program holds has 4 accesses a thread, otherwise 8. With label smoothing, 8 accesses of
16-bit elements would take more registers than there are."""


def losses_launch(x: Matrix, smooth: bool, parts: int | None = None) -> SliceLaunch:
    """The launch of `losses`. `parts` replaces the number of slices of a row."""
    if parts is None:
        parts = 1
        step = 2 * x.vector * 128
        if x.width > step and x.rows < SPLIT_ROWS * x.processors:
            wanted = math.ceil(PROGRAMS_A_PROCESSOR * x.processors / x.rows)
            parts = min(MOST_PARTS, wanted, math.ceil(x.width / step))
            parts = math.ceil(x.width / span_of(x.width, parts))
    span = span_of(x.width, parts)
    if parts > 1:
        blocks, held, warps, _ = team(x, 2, parts)
        pieces = min(4, held)
    elif x.row_bytes <= ONE_STEP_BYTES:
        # of the three, the one with the fewest idle lanes, and of these the one with the most threads
        blocks, pieces, warps = min((whole_row(x, each, 4096) for each in (4, 8, 16)), key=lambda way: _lanes(*way[:2]))
    else:
        threads = 128 if x.window else 256
        at_once = THREADS_A_PROCESSOR * x.processors // x.rows
        if at_once >= 128:
            threads = min(1024, 1 << at_once.bit_length() - 1)
        pieces = {128: 4, 256: 4 if x.row_bytes <= FOUR_PIECES_BYTES else 2, 512: 2, 1024: 1}[threads]
        warps = threads // x.warp_size
        blocks = {"ROWS": 1, "BLOCK": x.vector * threads}
        pieces = math.ceil(x.width / blocks["BLOCK"] / math.ceil(x.width / (blocks["BLOCK"] * pieces)))
    constants = {
        "SMOOTH": smooth,
        "WIDTH": words_read(parts),
        **blocks,
        "PIECES": pieces,
        "VEC": x.vector,
        "WINDOW": x.window,
        "PACKED": x.packed,
    }
    return SliceLaunch(constants, {"num_warps": warps}, parts, span, math.ceil(span / (blocks["BLOCK"] * pieces)))


def _lanes(blocks: dict[str, int], pieces: int) -> int:
    """Lanes that a program has for a row."""
    return blocks["BLOCK"] * pieces


def gradients_launch(x: Matrix, smooth: bool) -> SliceLaunch:
    """The launch of `logit_gradients`: two accesses a thread, in 128 threads, or 256 for rows of more than 32 KiB."""
    warps = (4 if x.row_bytes <= HELD_BYTES else 8) * 32 // x.warp_size
    lanes = power_of_two(x.width)
    block = min(lanes, x.vector * x.warp_size * warps)
    pieces = 2 if lanes > block else 1
    constants = {
        "SMOOTH": smooth,
        "ROWS": min(x.warp_size, max(1, 4096 // (lanes * x.itemsize))),
        "BLOCK": block,
        "PIECES": pieces,
        "VEC": x.vector,
        "WINDOW": x.window,
        "STREAM": False,
        "POLICY": x.load_policy,
    }
    return SliceLaunch(constants, {"num_warps": warps}, math.ceil(x.width / (block * pieces)))


def both_launch(x: Matrix, smooth: bool, parts: int | None = None) -> SliceLaunch:
    """The launch of `losses_and_gradients`. `parts` replaces the number of slices of a row. Raises Unsupported if the device
    cannot hold as many programs at once."""
    options: dict[str, Any] = {}
    pieces, policy = 0, x.load_policy
    few = x.rows * math.ceil(x.width / (8 * x.vector * 128)) < FEW_PROGRAMS
    spread = (
        x.width * x.itemsize > HELD_BYTES // 2 and x.rows * math.ceil(x.width / (4 * x.vector * 128)) <= x.processors
    )
    if parts is None and not spread and x.row_bytes <= HELD_BYTES:
        blocks, held, warps = whole_row(x, 4 if x.rows <= FEW_ROWS or (smooth and x.itemsize == 2) else 8)
        parts = 1
        if x.capped and held > 4:
            options["maxnreg"] = 56 if smooth or warps < 4 else 48
    elif shared := waiting_team(x, (4, 8) if few else (8,), parts):
        blocks, held, warps, parts = shared
        if x.capped and held <= 8:
            options["maxnreg"] = 96 if few else 56 if parts <= 32 and not x.window else 64
            if x.itemsize == 2 and options["maxnreg"] == 56:
                policy = ""  # with it, the kernel would spill
    else:
        warps, held, pieces, parts = 16 * 32 // x.warp_size, 4, 2, 1
        blocks = {"ROWS": 1, "BLOCK": x.vector * x.warp_size * warps}
    span = span_of(x.width, parts)
    constants = {
        "SMOOTH": smooth,
        "WIDTH": words_read(parts),
        **blocks,
        "HELD": held,
        "PIECES": pieces,
        "VEC": x.vector,
        "WINDOW": x.window,
        "STREAM": False,
        "POLICY": policy,
        "PACKED": x.packed,
    }
    loops = math.ceil((span - blocks["BLOCK"] * held) / (blocks["BLOCK"] * pieces)) if pieces else 0
    return SliceLaunch(constants, {"num_warps": warps, **options}, parts, span, loops)
