"""The launches of softmax's backward pass in Triton, by the number of rows, their length, and their dtype. Numbers only.

The limits come from measurements on an H200. An access is 16 bytes of one thread.
"""

from __future__ import annotations

import math
from typing import Any

from kbench.kernels.slice_launch import Matrix, SliceLaunch, span_of, waiting_team, whole_row, words_read

HELD_BYTES = 2**15
"""A program holds a row of y of at most this many bytes, and that of dy, in registers. Programs share a longer row."""

FEW_ELEMENTS = 2**23
"""A matrix of at most this many elements is cut into smaller slices, for more programs."""

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
        if x.capped and warps == 16 and x.itemsize == 2:
            options["maxnreg"] = 64  # for two programs on a multiprocessor
    elif shared := waiting_team(x, (4, 8) if x.rows * x.columns <= FEW_ELEMENTS else (8,), parts):
        blocks, held, warps, parts = shared
        if x.capped:
            options["maxnreg"] = 112 if x.window else 96
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
        "KEEP": False,
        "PACKED": x.packed,
    }
    loops = math.ceil((span - blocks["BLOCK"] * held) / (blocks["BLOCK"] * pieces)) if pieces else 0
    return SliceLaunch(constants, {"num_warps": warps, **options}, parts, span, loops)
