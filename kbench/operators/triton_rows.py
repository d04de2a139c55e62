"""What every Triton kernel that gives a row to a program has in common, whatever it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kbench.registry import Unsupported

if TYPE_CHECKING:
    from kbench.results import Case

LARGEST_BLOCK = 2**20
"""Elements that Triton allows in one tensor."""

LARGEST_GRID = 2**31 - 1
"""Programs that the first dimension of a launch can count."""


def power_of_two(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << (n - 1).bit_length()


def row_block(N: int, BLOCK: int | None) -> int:
    """The block that holds a row of N: BLOCK, or the smallest. Raises Unsupported when BLOCK does not hold one."""
    smallest = power_of_two(N)
    block = BLOCK or smallest
    if block < smallest or block != power_of_two(block):
        raise Unsupported(f"BLOCK={block} cannot hold a row of N={N}; it must be a power of two, {smallest} or more")
    return block


def row_warps(block: int) -> int:
    """Warps for a row: 4, 8 from a block of 2048, 16 from 4096."""
    return 16 if block >= 4096 else 8 if block >= 2048 else 4


def long_rows(case: Case) -> str | None:
    """Why a case's rows are too long for one block, None where they are not."""
    if case.N > LARGEST_BLOCK:
        return f"N > {LARGEST_BLOCK}: a row is one block, and a Triton block holds no more elements"
    return None


def warp_size(device: torch.device) -> int:
    """Threads of a warp: 64 on AMD's data-center devices, else 32."""
    return int(torch.cuda.get_device_properties(device).warp_size) if device.type == "cuda" else 32
