"""The launches that compute the gradients of rows."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from kbench.contract.provider import Unsupported
from kbench.kernels.norms.dispatch.launches import (
    LONGEST_ROW,
    Launches,
    Processors,
    Step,
    even_programs,
    row_blocks,
    tile_elements,
    tile_numbers,
    warps_for,
)
from kbench.kernels.norms.dispatch.shared import adding_up, shared_rows_plan, sharing
from kbench.kernels.triton_launch import power_of_two

_LONGEST_KEPT = 8192
"""Elements of a row that one program holds beside the sums over the rows."""

_LONGEST_MASKED = 12288
"""Elements of a packed row, see `_packed`, that may be shorter than the blocks which hold it."""

_TILE = 4096
"""Shorter rows share a program, until it has this many bytes; if there are enough of them to fill the device. Two such programs
on a multiprocessor have as much on the way as one with twice as many."""

_DIVIDED = 4096
"""Rows are held in parts of a power of two if that has so many elements. Shorter rows share a program, which would
then add them up across warps."""

_SHORTEST_WINDOW, _LONGEST_WINDOW = 1024, 6144
"""Rows that begin anywhere are moved in vectors of 16 bytes. Shorter ones are not: several share a program. Longer ones
are not: registers are too few."""

_LONGEST_IN_FEW_WARPS = 5120
"""Elements of such a row in 16 bits, up to which four warps hold it."""

_FEW_ROWS, _FEW_LONG_ROWS = 256, 512
"""Up to this many rows, or rows of 4096 elements and more, it is faster to read the matrix twice than to launch twice."""


_REDUCTION_BYTES = 2048
"""Shared memory that a program takes for its sums, beside the rows that are on the way. Triton takes at most 300 bytes."""


class _Room(NamedTuple):
    """What programs for rows that begin anywhere take of a multiprocessor: elements and registers of a thread, and warps."""

    elements: int
    warps: int
    registers: int


_ROOM_OF_THREE_PIECES, _ROOM_OF_OTHERS = _Room(24, 12, 168), _Room(40, 8, 255)
"""Rows in 16 bits that few warps hold. Instructions that compute addresses and wait serve more elements of a thread."""

_ROOM_OF_LONG_ROWS = _Room(12, 16, 128)
"""Longer rows, rows in float32, and weights in float32 beside rows in 16 bits."""


@cache
def backward_plan(
    M: int,
    N: int,
    itemsize: int,
    vector: int,
    inputs: int,
    sums: int,
    device: Processors,
    anywhere: bool = False,
    wide: bool = False,
) -> Launches:
    """The launches that compute the gradients of M rows of N elements of `itemsize` bytes, which are moved in vectors of
    `vector` elements. `inputs` are the matrices that are read, `sums` those over the rows, `anywhere` as in `forward_plan`, and
    `wide` whether the weight takes more bytes than an element of a row."""
    few = M <= _FEW_ROWS or (M <= _FEW_LONG_ROWS and N >= 4096)
    # a team takes one launch, too
    one_row = M == 1 and N > _LONGEST_KEPT and device.chained and vector * itemsize == 16
    if few and N <= LONGEST_ROW and not one_row:
        constants = tile_numbers(M, N, 1, 1, _DIVIDED)
        width = min(128, max(32, power_of_two(N // 128)))
        strips = math.ceil(N / width)
        numbers = {"strips": strips, "PACKED": False, "STEP": 64 if M > 32 else 32, "WIDTH": width}
        options = warps_for(tile_elements(constants), 32, device, 8 if N * itemsize <= 2**15 else 16)
        options = max(options, warps_for(128, 1, device), key=lambda each: each["num_warps"])
        return Launches((Step("backward_kernels.rows_and_columns", strips + M, constants | numbers, options),))
    width = N + 16 // itemsize - 1
    if anywhere and _SHORTEST_WINDOW <= N and width <= _LONGEST_WINDOW and device.chained:
        plan = _resident_anywhere(M, N, width, itemsize, sums, wide, device)
        if _staged_elements(plan) * itemsize * inputs + _REDUCTION_BYTES <= device.shared_bytes:
            return plan
    staged_bytes = device.shared_bytes if vector * itemsize >= 4 else 0  # a load to shared memory has at least 4 bytes
    longest = _LONGEST_KEPT // (1 if staged_bytes or sums == 1 else 2)
    longest = _LONGEST_WINDOW if anywhere and itemsize == 4 else longest
    if not one_row and (longest >= N or _packed(N, itemsize, vector, inputs, sums, staged_bytes)):
        return _resident(M, N, itemsize, inputs, sums, staged_bytes, device)
    if device.together and vector * itemsize >= 4:
        way = sharing(M, N, itemsize, vector, inputs, sums, wide, device)
        with suppress(Unsupported):  # otherwise the rows are read twice
            return shared_rows_plan(M, N, itemsize, sums, device, way)
    slices = 1 if device.multiprocessors <= M else min(math.ceil(N / 4096), math.ceil(2 * device.multiprocessors / M))
    span = 64 * math.ceil(N / slices / 64)
    slices = math.ceil(N / span)
    numbers = {"span": span, "BLOCK": 4096, "STAGES": 1}
    first = Step("column_kernels.mean_slices", M * slices, numbers, warps_for(4096, 8, device))
    strips = math.ceil(N / 512)
    chunk = math.ceil(M / max(1, 4 * device.multiprocessors // strips))
    parts = math.ceil(M / chunk)
    numbers = {"strips": strips, "chunk": chunk, "STEP": 8, "WIDTH": 512, "SLICES": power_of_two(slices)}
    second = Step("column_kernels.strips", strips * parts, numbers, warps_for(4096, 16, device))
    return Launches((first, second, *adding_up(N, parts, sums, device)), slices, parts)


def _packed(N: int, itemsize: int, vector: int, inputs: int, sums: int, staged_bytes: int) -> bool:
    """Whether a program can hold a longer row because its elements stay packed, two to a register. There is no room for what
    rows of other lengths need: masks of 16384 elements, or of shorter vectors; nor, at 16384, for two sums over the rows."""
    on_the_way = 2 * power_of_two(N) * itemsize * inputs
    if sums == 2:  # the weight is on the way, too, and may be float32
        on_the_way += 2 * _LONGEST_MASKED * 4
    fits = (N == LONGEST_ROW and sums == 1) or (N <= _LONGEST_MASKED and vector * itemsize == 16)
    return fits and itemsize == 2 and 0 < on_the_way <= staged_bytes


def _resident(M: int, N: int, itemsize: int, inputs: int, sums: int, staged_bytes: int, device: Processors) -> Launches:
    """Programs that stay, take one tile of rows after another, and keep the sums over the rows."""
    twice = 2 if N == 4096 and itemsize == 2 and device.multiprocessors * 16 >= M else 1
    constants = tile_numbers(M, N, twice * _TILE, 2 * device.multiprocessors, _DIVIDED)
    packed = N > _LONGEST_KEPT  # see `_packed`
    if packed:
        block, pieces = (_LONGEST_MASKED // 3, 3) if N <= _LONGEST_MASKED else (N, 1)
        constants |= {"BLOCK": block, "PIECES": pieces, "FULL": block * pieces == N}
    count = tile_elements(constants)
    # measured: one program that has 16 KiB of a float32 matrix on the way, and three that have 6 KiB of a 16-bit one
    resident = 1 if count > 5120 or itemsize * count == 2**14 else 3 if 2048 < N <= 3072 and itemsize == 2 else 2
    staged = resident * 2 * count * itemsize * inputs <= staged_bytes
    # a thread that has elements of all rows of a tile adds them up before it keeps them
    together = constants["ROWS"] > 1 and constants["BLOCK"] >= count // 32 * 16 // itemsize
    ahead = not staged and staged_bytes > 0
    options = warps_for(count, 16 if ahead or not (together or constants["ROWS"] == 1) else 32, device)
    tiles = math.ceil(M / constants["ROWS"])
    parts = even_programs(tiles, device.multiprocessors * resident)
    numbers = {"tiles": tiles, "PACKED": packed, "SUMS": together, "PDL": device.chained}
    numbers["KEEP"] = not packed or sums == 1  # else there is no room for the weight
    ways = {"AHEAD": ahead, "STAGES": 3 if staged else 1}
    step = Step("backward_kernels.resident", parts, constants | numbers | ways, options)
    return Launches((step, *adding_up(N, parts, sums, device)), parts=parts)


def _staged_elements(plan: Launches) -> int:
    """Elements of one matrix that a program of `_resident_anywhere` has on the way to shared memory."""
    numbers = plan.steps[0].arguments
    return int((numbers["STAGES"] - 1) * numbers["BLOCK"] * numbers["PIECES"])


def _resident_anywhere(
    M: int, N: int, width: int, itemsize: int, sums: int, wide: bool, device: Processors
) -> Launches:
    """The same for rows that begin anywhere. Rows of a program are `vector` rows apart, or a multiple of that."""
    vector = 16 // itemsize
    block, pieces = row_blocks(width, 512)
    if itemsize == 2 and not wide and block * pieces <= _LONGEST_IN_FEW_WARPS:
        room = _ROOM_OF_THREE_PIECES if pieces == 3 else _ROOM_OF_OTHERS
        stages = 4 if sums == 2 and pieces != 3 else 3
        packed = sums == 1 and pieces > 1  # else it would spill
    else:
        room, stages, packed = _ROOM_OF_LONG_ROWS, 3, False
        block, pieces = (2 * block, 3) if pieces == 5 else (block, pieces)
    options = warps_for(block * pieces, room.elements, device)
    resident = room.warps // options["num_warps"]
    options["maxnreg"] = room.registers  # ptxas would take more, and the programs would not fit
    parts = vector * even_programs(math.ceil(M / vector), max(1, device.multiprocessors * resident // vector))
    constants = {"BLOCK": block, "PIECES": pieces, "STAGES": stages, "PACKED": packed, "PDL": device.chained}
    step = Step("window_kernels.resident_anywhere", parts, constants, options)
    return Launches((step, *adding_up(N, parts, sums, device)), parts=parts, window=True)
