"""Other launches of the Triton kernels whose rows are cut into slices, for rows_candidates.py: cross-entropy and the backward
pass of softmax. Each is a name and a function that makes the launch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kbench.kernels.slice_launch import Matrix, SliceLaunch, span_of, words_read
from kbench.kernels.triton_rows import power_of_two

Makers = Iterator[tuple[str, Callable[..., SliceLaunch]]]


def loss_launches(M: int, N: int, itemsize: int) -> Makers:
    vector = 16 // itemsize
    if N * itemsize <= 2**15 and M > 1024:
        for warps, rows in itertools.product((1, 2, 4, 8, 16), (1, 2, 4)):
            pieces = math.ceil(N / (vector * 32 * warps))
            if pieces * rows <= 16 and 2 * pieces * vector * 32 * warps < 3 * N and rows * N * itemsize <= 2**14:
                yield f"{warps} warps, {pieces} pieces, {rows} rows", partial(_losses, warps, pieces, 1, rows, 0)
    if N * itemsize <= 2**14 and M > 1024:
        return
    for warps, pieces in ((4, 2), (4, 4), (4, 8), (8, 1), (8, 2), (8, 3), (8, 4), (16, 1), (16, 2), (32, 1)):
        most = min(128, math.ceil(N / (vector * 32 * warps * pieces)))
        wanted = {1, 2, 3, 4, 6} if M > 1024 else {math.ceil(132 * f / M) for f in (1, 4, 8, 12, 16)}
        for parts in sorted({max(1, min(most, each)) for each in wanted}):
            if parts == 1 or warps <= 8:
                yield f"{warps} warps, {pieces} pieces, {parts} slices", partial(_losses, warps, pieces, parts, 1, 0)


def _losses(
    warps: int, pieces: int, parts: int, rows: int, lanes: int, x: Matrix, smooth: bool, _: int | None = None
) -> SliceLaunch:
    block, span = lanes or x.vector * 32 * warps, span_of(x.width, parts)
    pieces = pieces or math.ceil(x.width / block)
    constants = {"SMOOTH": smooth, "WIDTH": words_read(parts), "ROWS": rows, "BLOCK": block, "PIECES": pieces}
    constants |= {"VEC": x.vector, "WINDOW": x.window, "PACKED": x.packed}
    return SliceLaunch(constants, {"num_warps": warps}, parts, span, math.ceil(span / (block * pieces)))


def held_launches(losses: bool, M: int, N: int, itemsize: int) -> Makers:
    """For kernels that hold a part of a row, of `losses` or of softmax's backward pass: warps, pieces that are read twice,
    blocks that are held, and a limit of registers."""
    vector = 16 // itemsize
    found = []
    for warps, cap in itertools.product((1, 2, 4, 8, 16, 32), (0, 40, 48, 64) if losses else (0, 64, 96)):
        blocks = math.ceil(N / (vector * 32 * warps))
        if (
            blocks <= 8
            and vector * 32 * warps <= power_of_two(N)
            and (blocks > 2 or not cap)
            and cap * 32 * warps <= 2**16
        ):
            found.append((warps, 0, blocks, cap, 1))
    if N * itemsize > 2**14:
        held = (
            (4, 4, 0),
            (4, 8, 64),
            (4, 8, 72),
            (4, 12, 88),
            (4, 16, 112),
            (8, 4, 0),
            (8, 8, 64),
            (8, 8, 80),
            (16, 8, 64),
        )
        shared = (
            (4, 2, 0),
            (4, 4, 0),
            (4, 6, 80),
            (4, 8, 96),
            (4, 10, 112),
            (4, 12, 120),
            (4, 12, 128),
            (4, 16, 152),
            (4, 16, 168),
            (8, 4, 64),
        )
        shared += ((8, 8, 96), (8, 12, 128), (16, 4, 64), (16, 8, 112))
        for warps, blocks, cap in held if losses else shared:
            parts = math.ceil(N / (vector * 32 * warps * blocks))
            if 1 < parts <= 128:
                found.append((warps, 0, blocks, cap, parts))
    if N * itemsize > 2**16 and M > 132:
        for warps, pieces, blocks, cap in (
            (32, 2, 8, 64),
            (16, 2, 8, 64),
            (16, 2, 4, 64),
            (16, 4, 4, 64),
            (32, 2, 4, 64),
        ):
            blocks = blocks if losses else blocks // 2
            lanes = vector * 32 * warps
            parts = max(1, round(N / (lanes * (blocks + 2 * pieces))))
            if N / parts > lanes * blocks:
                found.append((warps, pieces, blocks, cap, parts))
    for warps, pieces, blocks, cap, parts in found:
        label = f"{warps} warps, {blocks} held, {pieces} read twice, cap {cap}, {parts} slices"
        yield label, partial(_held, losses, warps, pieces, blocks, cap, parts)


def _held(losses: bool, warps: int, pieces: int, held: int, cap: int, parts: int, x: Matrix, *_: Any) -> SliceLaunch:
    block, span = x.vector * 32 * warps, span_of(x.width, parts)
    if not pieces:
        held = math.ceil(span / block)
    constants = {"WIDTH": words_read(parts), "ROWS": 1, "BLOCK": block, "HELD": held, "PIECES": pieces}
    constants |= {"VEC": x.vector, "WINDOW": x.window, "STREAM": bool(pieces), "KEEP": bool(pieces), "PACKED": x.packed}
    if losses:
        constants["SMOOTH"] = False
    loops = math.ceil(max(0, span - block * held) / (block * pieces)) if pieces else 0
    return SliceLaunch(constants, {"num_warps": warps} | ({"maxnreg": cap} if cap else {}), parts, span, loops)
