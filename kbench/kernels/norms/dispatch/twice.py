"""Launches that read rows twice, and hold nothing of them."""

from __future__ import annotations

from kbench.kernels.norms.dispatch.launches import Launches, Step


def read_twice(M: int, N: int, block: int, warps: int, first: str = "", second: str = "") -> Launches:
    """One program of `warps` warps for each of M rows of N elements. It reads `block` elements at a time. `first` and `second`
    are the eviction policies of the two times that it reads a row: "", "evict_first" or "evict_last"."""
    numbers = {"BLOCK": block, "FULL": N % block == 0, "STAGES": 1, "FIRST": first, "SECOND": second}
    return Launches((Step("forward_kernels.twice", M, numbers, {"num_warps": warps}),))
