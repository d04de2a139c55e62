"""The launches of softmax's backward pass in Triton, by the number of rows, their length, and their dtype. Numbers only."""

from __future__ import annotations

import math

from kbench.kernels.slice_launch import Matrix, SliceLaunch, span_of
from kbench.kernels.triton_rows import power_of_two


def backward_launch(x: Matrix, parts: int | None = None) -> SliceLaunch:
    """The launch of `softmax_gradients`. `parts` replaces the number of slices of a row."""
    lanes = power_of_two(x.width)
    warps = 4 if lanes * x.itemsize <= 8192 else 16
    block = min(lanes, x.vector * x.warp_size * warps)
    held = min(4, lanes // block)
    parts = parts or 1
    span = span_of(x.width, parts)
    pieces = 2 if span > block * held else 0
    constants = {
        "WIDTH": power_of_two(parts),
        "ROWS": 1 if parts > 1 else max(1, 2048 // (lanes * x.itemsize)),
        "BLOCK": block,
        "HELD": held,
        "PIECES": pieces,
        "VEC": x.vector,
        "WINDOW": x.window,
        "STREAM": False,
        "KEEP": False,
        "PACKED": x.packed,
    }
    loops = math.ceil((span - block * held) / (block * pieces)) if pieces else 0
    return SliceLaunch(constants, {"num_warps": warps}, parts, span, loops)
