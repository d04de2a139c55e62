"""Launches that normalise rows in 16 bits beside weights in float32."""

from __future__ import annotations

import math
from typing import Any

from kbench.kernels.norms.dispatch.launches import Launches, Processors, Step, tile_elements
from kbench.kernels.triton_launch import power_of_two


def large_beside_wide_weights(M: int, N: int, device: Processors) -> Launches | None:
    """Launches for M rows of N elements in 16 bits with a pivot; or None if it is not known that they are faster. On an H200,
    layernorm in bfloat16 takes 67.9 us for 65536 x 1024, 71.6 us for 32768 x 2048, and 73.1 us for 4096 x 16384. The launches
    of `for_wide_weights` take 74.8, 78.0 and 83.8 us."""
    if not device.chained or N % 8 or device.large_bytes > M * N * 2:
        return None
    if 512 < N <= 1024:
        registers = 72 if N == 1024 else 88  # masks take registers, too
        return held_beside_wide_weights(M, N, rows=2, pieces=1, warps=2, registers=registers)
    if 1024 < N <= 2048:
        return held_beside_wide_weights(M, N, rows=2, pieces=1, warps=4, registers=88)
    if 8192 < N <= 16384:
        return held_beside_wide_weights(M, N, rows=1, pieces=4, warps=16, registers=64)
    return None


def held_beside_wide_weights(
    M: int, N: int, rows: int, pieces: int, warps: int, registers: int, access: int = 4, packed: bool = True
) -> Launches:
    """Programs of `warps` warps that hold one or two rows of N elements in 16 bits, in some pieces of a power of two. A thread
    moves `access` elements at a time, and has at most `registers`. Rows that are `packed` stay in 16 bits, which takes PTX."""
    block = power_of_two(N) // pieces
    numbers = {"ROWS": rows, "BLOCK": block, "PIECES": math.ceil(N / block), "FULL": N % block == 0}
    numbers |= {"ACCESS": access, "PACKED": packed}
    options = {"num_warps": warps} | ({"maxnreg": registers} if registers else {})
    return Launches((Step("forward_wide_weights.beside_wide_weights", math.ceil(M / rows), numbers, options),))


def for_wide_weights(plan: Launches, pivot: bool, inputs: int, whole: bool, device: Processors) -> Launches:
    """A plan for weights in the dtype of the rows, changed for weights in float32, which take twice the registers. `pivot` and
    `inputs` are as in `forward_plan`; with a pivot, there are two weights. With `whole`, rows are multiples of 16 bytes."""
    numbers, options = plan.steps[0].arguments, plan.steps[0].options
    if not numbers.get("EARLY"):
        return plan
    count = tile_elements(numbers)
    each = count // (32 * options["num_warps"])
    alone = whole and device.chained and numbers["WIDTH"] == 1 and numbers["ROWS"] == 1 and not plan.window
    if alone and each == 32 and (numbers["PACKED"] if pivot else count > 8192):
        # a thread has registers for the weights of 8 elements, and for those of 8 more before it needs them
        ahead = 2 if not pivot and inputs == 1 else int(numbers["FULL"] or count <= 8192)
        return _changed(plan, {"BLOCK": numbers["BLOCK"] // 4, "PIECES": 4, "EARLY": ahead}, {"maxnreg": 64})
    if alone and each == 16 and pivot and numbers["PACKED"]:
        return _changed(plan, {}, {"maxnreg": 56})
    if alone and each == 16 and not pivot and inputs == 1 and count >= 4096:
        # three programs of 512 threads fit on a multiprocessor
        return _changed(plan, {"PACKED": True}, {"maxnreg": 40})
    return _changed(plan, {"EARLY": 0}, {}) if pivot else plan


def _changed(plan: Launches, arguments: dict[str, Any], options: dict[str, int]) -> Launches:
    steps = (step._replace(arguments=step.arguments | arguments, options=step.options | options) for step in plan.steps)
    return plan._replace(steps=tuple(steps))
