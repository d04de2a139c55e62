"""Launches that read rows of large matrices once, and ask the L2 cache to keep what they read."""

from __future__ import annotations

import math
from typing import NamedTuple

from kbench.kernels.norms.dispatch.launches import ALONE, Launches, Processors, Step


class Regime(NamedTuple):
    """Rows of `least` to `most` KiB in each input are held by `warps` warps, in blocks in which a thread has 16 bytes. With
    `early`, weights are loaded before the row is reduced. `registers` is the limit for a thread; 0 if there is none."""

    least: float
    most: float
    warps: int
    early: bool = False
    registers: int = 0


REGIMES = {
    (1, False, 4): (Regime(16, 32, 16, early=True), Regime(64, 64, 32, registers=32)),
    (1, False, 2): (Regime(8, 12, 8), Regime(16, 32, 16)),
    (2, False, 2): (Regime(10, 12, 8), Regime(16, 32, 16)),
    (1, True, 4): (Regime(16, 32, 16),),
}
"""By the number of inputs, the pivot, and the bytes of an element. On an H200, the lengths that were measured are 3 to
5 % faster than without the hint `evict_last`, also if no line persists from an earlier call and nothing is flushed between
calls. Why is not known: nothing is read twice. Lengths between them were not measured."""


def read_once(M: int, N: int, itemsize: int, pivot: bool, inputs: int, device: Processors) -> Launches | None:
    """Launches that read M rows of N elements once; or None if it is not known that they are faster. The arguments are those of
    `forward_plan`."""
    if not device.chained or M * N * itemsize < device.large_bytes or N * itemsize % 16:
        return None
    for least, most, warps, early, registers in REGIMES.get((inputs, pivot, itemsize), ()):
        if least * 1024 <= N * itemsize <= most * 1024:
            block = warps * 32 * 16 // itemsize
            pieces = math.ceil(N / block)
            numbers = {"ROWS": 1, "BLOCK": block, "PIECES": pieces, "FULL": N % block == 0, "POLICY": "evict_last"}
            numbers |= {"EARLY": pieces if early else 0, "PACKED": itemsize == 2, "WINDOW": False} | ALONE
            limit = {"maxnreg": registers} if registers else {}
            return Launches((Step("forward_kernels.registers", M, numbers, {"num_warps": warps} | limit),))
    return None
