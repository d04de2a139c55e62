"""Launches of teams of programs that stay on the device, and share long rows."""

from __future__ import annotations

import math

from kbench.kernels.norms.dispatch.launches import LARGE_BYTES, Launches, Processors, Step, even_programs, in_phases
from kbench.kernels.triton_rows import power_of_two

_LONG = 2**17
"""Elements of a row of float32 from which teams are faster. On an H200, rows of 2^18 elements were measured."""


def long_rows(M: int, N: int, itemsize: int, device: Processors) -> Launches | None:
    """Launches that normalise M rows of N elements in teams; or None if it is not known that they are faster, or if the device
    does not hold all programs of a row at once."""
    measured = device.chained and itemsize == 4 and N >= _LONG and N % 4 == 0 and M * N * itemsize >= LARGE_BYTES
    return teams(M, N, itemsize, 8192, 16, 1, 3, device) if measured else None


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
    step = Step("forward_teams.teams_in_turn", programs, numbers, options)
    return Launches(in_phases(step, device), slices, teams=True)
