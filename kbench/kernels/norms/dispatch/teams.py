"""Launches of teams of programs that stay on the device, and share long rows."""

from __future__ import annotations

import math

from kbench.kernels.norms.dispatch.launches import LARGE_BYTES, Launches, Processors, Step, even_programs, in_phases
from kbench.kernels.triton_rows import power_of_two

_LONG = 2**17
"""Elements of a row of float32 from which teams are faster. On an H200, rows of 2^18 elements were measured."""


_BUSY = 0.85
"""The share of the multiprocessors that must have a program. On an H200, it is 0.97 for rows of 2^18 elements."""

_SPAN, _STAGES = 8192, 3

_SUMS_BYTES = 1024
"""Shared memory, at most, through which the warps of a program exchange sums."""


def long_rows(M: int, N: int, itemsize: int, inputs: int, device: Processors) -> Launches | None:
    """Launches that normalise M rows of N elements in teams; or None if it is not known that they are faster, or if the device
    has too little shared memory, or does not hold all programs of a row at once. `inputs` is how many matrices are read."""
    if not device.chained or itemsize != 4 or N < _LONG or N % 4 or M * N * itemsize < LARGE_BYTES:
        return None
    if (_STAGES - 1) * _SPAN * itemsize * inputs + _SUMS_BYTES > device.shared_bytes:
        return None
    plan = teams(M, N, itemsize, _SPAN, 16, 1, _STAGES, device)
    return plan if plan and plan.steps[0].programs >= _BUSY * device.multiprocessors else None


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
