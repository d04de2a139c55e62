"""The launches that normalise rows."""

from __future__ import annotations

import math
from functools import cache

from kbench.kernels.norms.dispatch.launches import (
    ALONE,
    LONGEST_ROW,
    Launches,
    Processors,
    Step,
    in_phases,
    tile_elements,
    tile_numbers,
    warps_for,
)
from kbench.kernels.norms.dispatch.once import read_once
from kbench.kernels.norms.dispatch.teams import long_rows
from kbench.kernels.norms.dispatch.twice import long_rows_twice, read_twice, two_inputs_twice
from kbench.kernels.norms.dispatch.wide_weights import for_wide_weights, large_beside_wide_weights
from kbench.kernels.triton_launch import power_of_two

_SLICE = 8192
"""Elements that one program of a team holds, of a longer row."""

_LARGEST_TEAM = 128
"""Programs that may share a row, if there are as many multiprocessors."""

_TILE = 4096
"""Shorter rows share a program, until it has this many bytes; if there are enough of them to fill the device."""

_TILE_WITH_PIVOT = 1024
"""The same with a pivot. A row that has a program to itself needs one reduction, where several rows in a program need two."""

_DIVIDED = 512
"""Rows are held in parts of a power of two if that has so many elements."""


@cache
def forward_plan(
    M: int,
    N: int,
    itemsize: int,
    pivot: bool,
    device: Processors,
    anywhere: bool = False,
    inputs: int = 1,
    wide: bool = False,
) -> Launches:
    """The launches that normalise M rows of N elements of `itemsize` bytes. `pivot` is that of the operator's mathematics,
    `anywhere` whether rows begin anywhere, and can be moved in windows of 16 bytes, and `inputs` the matrices that are read.
    `wide` is whether weights have more bytes than the elements of the rows."""
    if not anywhere and (plan := _large_plan(M, N, itemsize, pivot, device, inputs, wide)):
        return plan
    plan = _own_plan(M, N, itemsize, pivot, device, anywhere, inputs)
    return for_wide_weights(plan, pivot, inputs, N * itemsize % 16 == 0, device) if wide else plan


def _large_plan(
    M: int, N: int, itemsize: int, pivot: bool, device: Processors, inputs: int, wide: bool
) -> Launches | None:
    """Launches that were measured with large matrices only; None for the others."""
    if wide:
        return large_beside_wide_weights(M, N, device) if pivot and inputs == 1 else None
    if inputs == 2 and not pivot and (plan := two_inputs_twice(M, N, itemsize, device)):
        return plan
    if inputs == 1 and pivot and (plan := long_rows_twice(M, N, itemsize, device)):
        return plan
    return read_once(M, N, itemsize, pivot, inputs, device) or long_rows(M, N, itemsize, pivot, inputs, device)


def _own_plan(M: int, N: int, itemsize: int, pivot: bool, device: Processors, anywhere: bool, inputs: int) -> Launches:
    width = N + 16 // itemsize - 1 if anywhere else N
    whole = anywhere or N * itemsize % 16 == 0
    packed = whole and itemsize == 2 and inputs == 1 and device.shared_bytes > 0
    if width > LONGEST_ROW:
        return _forward_teams(M, N, width, itemsize, pivot, packed, device)
    most = 1 if anywhere else (_TILE_WITH_PIVOT if pivot else _TILE) // itemsize
    constants = tile_numbers(M, width, most, device.multiprocessors, _DIVIDED)
    count, early = tile_elements(constants), constants["PIECES"] == 1
    packed &= count >= 1024 and (pivot or not early or count > 8192)
    waves = M / device.multiprocessors
    crowded = itemsize == 2 and count >= 4096 and waves > 4 and (pivot or waves <= 8)
    each = 32 if early or (anywhere and count > 8192) else 48  # 48 in several blocks: a thread has 16 bytes of each
    if early and count <= 8192 and not crowded:
        each = 16
    options = warps_for(count, each, device)
    if pivot and itemsize == 4 and not early and count > 8192:
        options = warps_for(count, 16, device, 32)
    if device.chained and early and packed and not anywhere:
        options["maxnreg"] = 40 if each == 16 else 64  # more programs fit on a multiprocessor
    elif device.chained and whole and constants["PIECES"] == 5:
        options["maxnreg"] = 80  # without a limit, ptxas keeps to 64 registers, and spills
    ways = {"EARLY": int(early), "PACKED": packed, "WINDOW": anywhere, "FULL": constants["FULL"] and not anywhere}
    step = Step("forward_kernels.registers", math.ceil(M / constants["ROWS"]), constants | ways | ALONE, options)
    return Launches((step,), window=anywhere)


def _forward_teams(
    M: int, N: int, width: int, itemsize: int, pivot: bool, packed: bool, device: Processors
) -> Launches:
    """Programs that share rows of `width` lanes. A team of few programs is fastest if all programs start at once; otherwise
    shorter slices are, if they are packed."""
    window = width > N
    most = _LARGEST_TEAM if device.interpreted else min(_LARGEST_TEAM, device.multiprocessors)
    at_once = M * math.ceil(width / _SLICE) <= device.multiprocessors
    few = M * math.ceil(2 * width / _SLICE) <= 8 * device.multiprocessors
    short = itemsize == 2 and (window or (not at_once and (few or pivot or not packed)))
    held = _SLICE // 2 if window or (short and math.ceil(2 * width / _SLICE) <= most) else _SLICE
    slices = math.ceil(width / held)
    if not device.together or slices > most:
        return read_twice(M, N, 8192, warps_for(8192, 8, device, 32)["num_warps"])
    span = 64 * math.ceil(width / slices / 64)
    slices = math.ceil(width / span)
    early = (at_once or (device.chained and packed and few and held < _SLICE)) and not window
    options = warps_for(held, 16 if window and itemsize == 4 else 32, device)
    if early and not at_once:
        options["maxnreg"] = 64
    constants = {"ROWS": 1, "BLOCK": held, "PIECES": 1, "EARLY": int(early), "PACKED": packed, "WINDOW": window}
    constants |= {"FULL": N % span == 0 and span == held and not window, "span": span}
    constants |= {"WIDTH": power_of_two(slices), "TICKETS": M * slices > device.multiprocessors, "PHASE": 0}
    step = Step("forward_kernels.registers", M * slices, constants, options)
    return Launches(in_phases(step, device), slices, teams=True, window=window)
