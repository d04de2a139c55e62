"""Launches of programs that share long rows of large matrices: teams that stay on the device, and slices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from kbench.kernels.norms.dispatch.launches import Launches, Processors, Step, even_programs, in_phases
from kbench.kernels.triton_launch import power_of_two


class Team(NamedTuple):
    """Programs of `warps` warps that each have `span` columns of a row, `resident` of them on a multiprocessor."""

    span: int
    warps: int
    resident: int


_WIDE, _NARROW = Team(8192, 16, 1), Team(4096, 8, 2)

_SLICED, _LONG, _LONGEST = 2**16, 2**17, 2**18
"""Elements of a row. On an H200, these lengths were measured; those between them get the launches of the shorter one."""

_BUSY = 0.85
"""The share of the multiprocessors that must have a program. On an H200, it is 0.97 for rows of 2^18 elements."""

_STAGES = 3

_SUMS_BYTES = 1024
"""Shared memory, at most, through which the warps of a program exchange sums."""


def long_rows(M: int, N: int, itemsize: int, pivot: bool, inputs: int, device: Processors) -> Launches | None:
    """Launches that normalise M rows of N elements by programs that share each row; or None if it is not known that they are
    faster, or if the device has too little shared memory, or does not hold all programs of a row at once. `inputs` is how many
    matrices are read, and `pivot` that of the operator's mathematics."""
    if not device.chained or N < _SLICED or N * itemsize % 16 or M * N * itemsize < device.large_bytes:
        return None
    if team := _team(N, itemsize, pivot, inputs):
        return _large_teams(M, N, itemsize, inputs, team, device)
    if itemsize == 4 and N % 8192 == 0 and device.multiprocessors >= N // 8192:
        return in_slices(M, N, 2048, 4, 64, "evict_last", device)  # four programs are on a multiprocessor
    return None


def _team(N: int, itemsize: int, pivot: bool, inputs: int) -> Team | None:
    """The fastest team for large matrices on an H200; None where other launches are faster."""
    if N < _LONG or (itemsize == 2 and pivot):
        return None
    if N >= _LONGEST:
        return _WIDE
    return _NARROW if (itemsize, inputs) in ((4, 1), (2, 2)) else None


def _large_teams(M: int, N: int, itemsize: int, inputs: int, team: Team, device: Processors) -> Launches | None:
    shared_bytes = (_STAGES - 1) * team.span * itemsize * inputs + _SUMS_BYTES
    if shared_bytes * team.resident > device.shared_bytes:
        return None
    plan = teams(M, N, itemsize, *team, _STAGES, device)
    return plan if plan and plan.steps[0].programs >= _BUSY * device.multiprocessors * team.resident else None


def in_slices(M: int, N: int, block: int, pieces: int, registers: int, policy: str, device: Processors) -> Launches:
    """Programs of 256 threads for one slice of one row each: `pieces` blocks of `block` elements. A thread has at most
    `registers`; 0 if there is no limit. `policy` is the eviction policy of the rows."""
    span = block * pieces
    slices = math.ceil(N / span)
    numbers: dict[str, Any] = {"ROWS": 1, "BLOCK": block, "PIECES": pieces, "FULL": N % span == 0, "EARLY": 0}
    numbers |= {
        "PACKED": False,
        "WIDTH": power_of_two(slices),
        "TICKETS": M * slices > device.multiprocessors,
        "PHASE": 0,
    }
    numbers |= {"POLICY": policy, "span": span, "WINDOW": False}
    limit = {"maxnreg": registers} if registers and device.shared_bytes else {}
    step = Step("forward_kernels.registers", M * slices, numbers, {"num_warps": 8 * 32 // device.warp_size} | limit)
    return Launches(in_phases(step, device), slices, teams=True)


def teams(
    M: int, N: int, itemsize: int, span: int, warps: int, resident: int, stages: int, device: Processors
) -> Launches | None:
    """Programs of `warps` warps that each have `span` columns of a row, `resident` of them on a multiprocessor, with
    `stages` - 1 rows on the way to shared memory. None if the device does not hold all programs of a row at once: they would
    wait forever."""
    slices, most = math.ceil(N / span), device.multiprocessors * resident
    if slices > most:
        return None
    programs = even_programs(M, most // slices) * slices
    numbers = {"BLOCK": span // 2, "PIECES": 2, "FULL": N % span == 0, "span": span, "STAGES": stages, "PHASE": 0}
    numbers |= {"PACKED": itemsize == 2 and device.shared_bytes > 0, "PTX": device.shared_bytes > 0}
    numbers |= {"WIDTH": max(32, power_of_two(slices))}  # every lane of a warp waits for a program
    options = {"num_warps": max(1, warps * 32 // device.warp_size)}
    if device.shared_bytes:  # on NVIDIA; a thread gets registers by eights
        options["maxnreg"] = min(255, 2**16 // (resident * warps * 32) // 8 * 8)
    if device.chained:  # the driver starts no program before all of them fit on the device, also beside other launches
        options["launch_cooperative_grid"] = True
    step = Step("forward_teams.teams_in_turn", programs, numbers, options)
    return Launches(in_phases(step, device), slices, teams=True)
