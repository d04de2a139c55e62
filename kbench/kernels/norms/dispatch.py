"""The dispatch of the norms: kernels, their blocks and their threads, by the shape, the dtype and the device.

The kernels are in the files beside it. This file only computes numbers: it needs neither Triton nor a device.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kbench.kernels.triton_rows import power_of_two


class Processors(NamedTuple):
    """What the dispatch asks of a device. `chained` is whether a launch can start before the one before it ends."""

    multiprocessors: int
    warp_size: int
    chained: bool


class Step(NamedTuple):
    """One launch: a kernel, how many programs, arguments that are numbers, and Triton's options."""

    kernel: str
    programs: int
    arguments: dict[str, Any]
    options: dict[str, Any]


class Launches(NamedTuple):
    """The launches of one call. `slices` is how many programs share a row, and `parts` how many share the rows: each writes its
    part of the sums over the rows."""

    steps: tuple[Step, ...]
    slices: int = 0
    parts: int = 1


LONGEST_ROW = {2: 16384, 4: 16384}
"""Elements of a row that a program holds in registers, by the bytes of an element. Longer rows are read twice."""


def blocks(N: int, vector: int) -> tuple[int, int]:
    """The block in which a row is held, and how many of them: one power of two, or up to six eighths of it."""
    whole = power_of_two(N)
    eighth = whole // 8
    pieces = math.ceil(N / max(eighth, 1))
    return (eighth, pieces) if pieces <= 6 and eighth >= 64 else (whole, 1)


def _tile(M: int, N: int, itemsize: int, device: Processors) -> tuple[dict[str, Any], int, dict[str, Any]]:
    block, pieces = blocks(N, 1)
    rows = max(1, min(2048 // (block * pieces), power_of_two(M)))
    warps = max(1, min(16, rows * block * pieces // (16 * device.warp_size)))
    full = M % rows == 0 and block * pieces == N
    constants = {"ROWS": rows, "BLOCK": block, "PIECES": pieces, "FULL": full}
    return constants, math.ceil(M / rows), {"num_warps": power_of_two(warps)}


def forward_plan(M: int, N: int, itemsize: int, vector: int, inputs: int, device: Processors) -> Launches:
    """The launches that normalise M rows of N elements of `itemsize` bytes, which are moved in vectors of `vector` elements."""
    if LONGEST_ROW[itemsize] >= N:
        constants, programs, options = _tile(M, N, itemsize, device)
        return Launches((Step("forward_kernels.registers", programs, constants | {"EARLY": True}, options),))
    constants, options = {"BLOCK": 4096, "STAGES": 1}, {"num_warps": 512 // device.warp_size}
    if device.multiprocessors <= M:
        return Launches((Step("forward_kernels.twice", M, constants, options),))
    slices = min(math.ceil(N / 4096), math.ceil(2 * device.multiprocessors / M))
    span = 64 * math.ceil(N / slices / 64)
    slices = math.ceil(N / span)
    first = constants | {"slices": slices, "span": span}
    second = first | {"WIDTH": power_of_two(slices)}
    return Launches(
        (
            Step("forward_kernels.sum_slices", M * slices, first, options),
            Step("forward_kernels.write_slices", M * slices, second, options),
        ),
        slices,
    )


def backward_plan(M: int, N: int, itemsize: int, vector: int, inputs: int, sums: int, device: Processors) -> Launches:
    """The launches that compute the gradients. `inputs` are the matrices that are read, and `sums` those over the rows."""
    if LONGEST_ROW[itemsize] >= N:
        constants, tiles, options = _tile(M, N, itemsize, device)
        if M <= 1024 and M * N <= 2**21:
            strips = math.ceil(N / 64)
            constants |= {"strips": strips, "STEP": 32, "WIDTH": 64}
            return Launches((Step("backward_kernels.rows_and_columns", strips + tiles, constants, options),))
        parts = _even(tiles, device.multiprocessors * 2)
        constants |= {"tiles": tiles, "SUMS": False, "AHEAD": False, "STAGES": 1, "KEEP": True, "PDL": device.chained}
        return Launches(
            (Step("backward_kernels.resident", parts, constants, options), *_added(N, parts, sums, device)), parts=parts
        )
    options = {"num_warps": 512 // device.warp_size}
    slices = 1 if device.multiprocessors <= M else min(math.ceil(N / 4096), math.ceil(2 * device.multiprocessors / M))
    span = 64 * math.ceil(N / slices / 64)
    slices = math.ceil(N / span)
    first = Step("column_kernels.mean_slices", M * slices, {"span": span, "BLOCK": 4096, "STAGES": 1}, options)
    strips = math.ceil(N / 512)
    chunk = math.ceil(M / max(1, 4 * device.multiprocessors // strips))
    parts = math.ceil(M / chunk)
    numbers = {"strips": strips, "chunk": chunk, "STEP": 8, "WIDTH": 512, "SLICES": power_of_two(slices)}
    second = Step("column_kernels.strips", strips * parts, numbers, {"num_warps": 256 // device.warp_size})
    return Launches((first, second, *_added(N, parts, sums, device)), slices, parts)


def _even(tiles: int, most: int) -> int:
    """At most this many programs, of which each gets the same number of tiles, or one fewer."""
    return math.ceil(tiles / math.ceil(tiles / most))


def _added(N: int, parts: int, sums: int, device: Processors) -> tuple[Step, ...]:
    """The launch that adds up the parts of the sums over the rows; none if there is one part."""
    if parts == 1:
        return ()
    width = 32
    chained = {"launch_pdl": True} if device.chained else {}
    constants = {"STEP": 64, "BLOCK": width, "PDL": device.chained}
    return (
        Step(
            "backward_kernels.add_up",
            math.ceil(N / width) * sums,
            constants,
            {"num_warps": 128 // device.warp_size} | chained,
        ),
    )
