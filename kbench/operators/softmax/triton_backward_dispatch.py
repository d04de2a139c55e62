"""The launches of softmax's backward pass in Triton, by the number of rows, their length, and their dtype. Numbers only.

The limits come from measurements on an H200. An access is 16 bytes of one thread.
"""

from __future__ import annotations

import math
from typing import Any

from kbench.kernels.slice_launch import Matrix, SliceLaunch, span_of, waiting_team, whole_row, words_read

HELD_BYTES = 2**15
"""A program holds a row of y of at most this many bytes, and that of dy, in registers. Programs share a longer row."""

FEW_PROGRAMS = 64
"""Slices have 4 blocks instead of 8 if there would be fewer programs than this."""

LONG_FLOATS = 2**17
"""In float32, rows of more bytes than this have slices of 16 blocks."""

SPREAD_BYTES = 2**14
"""A few rows of more bytes than this are shared by programs, if all these programs are on the device at once."""


def backward_launch(x: Matrix, parts: int | None = None) -> SliceLaunch:
    """The launch of `softmax_gradients`. `parts` replaces the number of slices of a row. Raises Unsupported if the device
    cannot hold as many programs at once."""
    options: dict[str, Any] = {}
    pieces = 0
    spread = x.row_bytes > SPREAD_BYTES and x.rows * math.ceil(x.width / (4 * x.vector * 128)) <= x.processors
    if parts is None and not spread and x.row_bytes <= HELD_BYTES:
        blocks, held, warps = whole_row(x, 4)
        parts = 1
        if x.itemsize == 2 and warps * x.warp_size == 512:
            if x.window:
                options |= {"maxnreg": 64} if x.capped else {}
            else:  # two programs of 1024 threads on a multiprocessor
                warps, blocks = 2 * warps, {"ROWS": 1, "BLOCK": x.vector * 1024}
                held = math.ceil(x.width / blocks["BLOCK"])  # 2, or more if the vectors are short
    elif shared := waiting_team(x, _blocks_of_slices(x), parts):
        blocks, held, warps, parts = shared
        if x.capped and held <= 16:
            options["maxnreg"] = 168 if held > 12 else 112 if x.window else 96
    else:
        warps, held, pieces, parts = 16 * 32 // x.warp_size, 2, 2, 1
        blocks = {"ROWS": 1, "BLOCK": x.vector * x.warp_size * warps}
    span = span_of(x.width, parts)
    constants = {
        "WIDTH": words_read(parts),
        **blocks,
        "HELD": held,
        "PIECES": pieces,
        "VEC": x.vector,
        "WINDOW": x.window,
        "STREAM": False,
        "POLICY": x.load_policy,
        "PACKED": x.packed,
    }
    loops = math.ceil((span - blocks["BLOCK"] * held) / (blocks["BLOCK"] * pieces)) if pieces else 0
    return SliceLaunch(constants, {"num_warps": warps, **options}, parts, span, loops)


def _blocks_of_slices(x: Matrix) -> tuple[int, ...]:
    """The blocks of a slice: as many as registers can hold on a full device, and then fewer."""
    if x.rows * math.ceil(x.width / (8 * x.vector * 128)) < FEW_PROGRAMS:
        return 4, 8
    if x.itemsize == 4 and x.row_bytes > LONG_FLOATS:
        return 16, 8
    return (10,) if x.itemsize == 2 and x.window else (8,)
