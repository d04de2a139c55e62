"""The launches of cross-entropy in Triton, by the number of rows, their length, and their dtype. Numbers only."""

from __future__ import annotations

import math

from kbench.kernels.slice_launch import Matrix, SliceLaunch, span_of
from kbench.kernels.triton_rows import power_of_two


def losses_launch(x: Matrix, smooth: bool, parts: int | None = None) -> SliceLaunch:
    """The launch of `losses`. `parts` replaces the number of slices of a row."""
    lanes = power_of_two(x.width)
    short = lanes * x.itemsize <= 8192
    warps = 4 if short else 8
    block = min(lanes, x.vector * x.warp_size * warps)
    pieces = max(1, min(4 if short else 2, lanes // block))
    if parts is None:
        parts = 1
        if not short and x.rows < 8 * x.processors:
            parts = max(1, min(128, 8 * x.processors // x.rows, x.width // (block * pieces)))
    tile = 1 if parts > 1 else max(1, 2048 // (lanes * x.itemsize))
    span = span_of(x.width, parts)
    constants = {
        "SMOOTH": smooth,
        "WIDTH": power_of_two(parts),
        "ROWS": tile,
        "BLOCK": block,
        "PIECES": pieces,
        "VEC": x.vector,
        "WINDOW": x.window,
    }
    return SliceLaunch(constants, {"num_warps": warps}, parts, span, math.ceil(span / (block * pieces)))


def gradients_launch(x: Matrix, smooth: bool) -> SliceLaunch:
    """The launch of `logit_gradients`."""
    lanes = power_of_two(x.width)
    block = min(lanes, x.vector * x.warp_size * 4)
    pieces = 2 if lanes > block else 1
    constants = {
        "SMOOTH": smooth,
        "ROWS": max(1, 2048 // (lanes * x.itemsize)),
        "BLOCK": block,
        "PIECES": pieces,
        "VEC": x.vector,
        "WINDOW": x.window,
        "STREAM": False,
    }
    return SliceLaunch(constants, {"num_warps": 4}, math.ceil(x.width / (block * pieces)))


def both_launch(x: Matrix, smooth: bool, parts: int | None = None) -> SliceLaunch:
    """The launch of `losses_and_gradients`. `parts` replaces the number of slices of a row."""
    lanes = power_of_two(x.width)
    warps = 4 if lanes * x.itemsize <= 8192 else 16
    block = min(lanes, x.vector * x.warp_size * warps)
    held = min(4, lanes // block)
    parts = parts or 1
    span = span_of(x.width, parts)
    pieces = 2 if span > block * held else 0
    constants = {
        "SMOOTH": smooth,
        "WIDTH": power_of_two(parts),
        "ROWS": 1 if parts > 1 else max(1, 2048 // (lanes * x.itemsize)),
        "BLOCK": block,
        "HELD": held,
        "PIECES": pieces,
        "VEC": x.vector,
        "WINDOW": x.window,
        "STREAM": False,
        "KEEP": False,
        "PACKED": False,
    }
    loops = math.ceil((span - block * held) / (block * pieces)) if pieces else 0
    return SliceLaunch(constants, {"num_warps": warps}, parts, span, loops)
