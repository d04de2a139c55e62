"""Launches that read rows twice, and hold nothing of them."""

from __future__ import annotations

import math
from typing import Any

from kbench.kernels.norms.dispatch.launches import Launches, Processors, Step

WARPS_OF_TWO_INPUTS = {(2, 4096): 8, (2, 8192): 16, (4, 16384): 16}
"""Warps for a row of each of two inputs, by the bytes of an element and of the row. On an H200, such rows are faster if they
are read twice. Others were not, or were not measured."""


_LONG_ROWS = (12288, 16384)
"""Elements of float32 rows with a pivot. On an H200, such rows are faster if they are read twice. Lengths between them were not
measured."""


def two_inputs_twice(M: int, N: int, itemsize: int, device: Processors) -> Launches | None:
    """Launches that read M rows of N elements, in each of two inputs, twice, with 16 bytes in a thread at a time; or None if
    it is not known that they are faster."""
    warps = WARPS_OF_TWO_INPUTS.get((itemsize, N * itemsize))
    if not warps or not device.chained or M * N * itemsize < device.large_bytes:
        return None
    return read_twice(M, N, warps * 512 // itemsize, warps, "evict_last", "evict_first")


def read_twice(M: int, N: int, block: int, warps: int, first: str = "", second: str = "") -> Launches:
    """One program of `warps` warps for each of M rows of N elements. It reads `block` elements at a time. `first` and `second`
    are the eviction policies of the two times that it reads a row: "", "evict_first" or "evict_last"."""
    numbers = {"BLOCK": block, "FULL": N % block == 0, "STAGES": 1, "FIRST": first, "SECOND": second}
    return Launches((Step("forward_kernels.twice", M, numbers, {"num_warps": warps}),))


def long_rows_twice(M: int, N: int, itemsize: int, device: Processors) -> Launches | None:
    """Launches for M rows of N elements with a pivot; or None if it is not known that they are faster. On an H200, layernorm
    takes 132.9 us for 4096 rows of 64 KiB in float32, and 132.4 us for 5461 rows of 48 KiB. It takes 137.5 and 135.3 us if a
    program holds the row: then few programs are on a multiprocessor, and little is on the way while they reduce."""
    if not device.chained or itemsize != 4 or N not in _LONG_ROWS or M * N * itemsize < device.large_bytes:
        return None
    return read_twice_unrolled(M, N, itemsize, 32, ("evict_last", "evict_first", "evict_last"), 32)


def read_twice_unrolled(
    M: int, N: int, itemsize: int, warps: int, hints: tuple[str, str, str], registers: int
) -> Launches:
    """One program of `warps` warps for each row, which reads it twice with 16 bytes in a thread at a time. The hints are the
    eviction policies for the first time, the second time and the weights. `registers` is the limit for a thread; 0 if there is
    none."""
    block = warps * 512 // itemsize
    numbers: dict[str, Any] = {"BLOCK": block, "PIECES": math.ceil(N / block), "FULL": N % block == 0}
    numbers |= dict(zip(("FIRST", "SECOND", "POLICY"), hints, strict=True))
    limit = {"maxnreg": registers} if registers else {}
    return Launches((Step("forward_kernels.twice_unrolled", M, numbers, {"num_warps": warps} | limit),))
