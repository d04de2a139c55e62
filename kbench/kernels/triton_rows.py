"""Helpers for Triton kernels in which a program computes a row, whatever the operator."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from kbench.contract.provider import Unsupported

if TYPE_CHECKING:
    from kbench.results.case import Case

LARGEST_BLOCK = 2**20
"""Elements that Triton allows in one tensor."""


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


def row_block(N: int, BLOCK: int | None) -> int:
    """The block that holds a row of N elements: BLOCK, or the smallest possible. Raises Unsupported if BLOCK is too small."""
    smallest = power_of_two(N)
    block = BLOCK or smallest
    if block < smallest or block != power_of_two(block):
        raise Unsupported(f"BLOCK={block} cannot hold a row of N={N}; it must be a power of two, {smallest} or more")
    return block


def row_warps(block: int) -> int:
    """Warps for a row: 4, or 8 from a block of 2048 on, or 16 from 4096 on."""
    return 16 if block >= 4096 else 8 if block >= 2048 else 4


def long_rows(case: Case) -> str | None:
    """Why the rows of a case are too long for one block; None if they are not."""
    if case.N > LARGEST_BLOCK:
        return f"N > {LARGEST_BLOCK}: a row must fit into one Triton block, which holds at most that many elements"
    return None


@cache
def _properties(device: torch.device) -> Any:
    """torch's properties of a device with a number. torch takes several microseconds to find them, and every call asks."""
    return torch.cuda.get_device_properties(device)


def warp_size(device: torch.device) -> int:
    """Threads of a warp: 64 on AMD's data-center devices, 32 on others."""
    return int(_properties(device).warp_size) if device.type == "cuda" else 32


H200_CACHE_BYTES = 60 * 2**20
"""The L2 cache of the device for which launches are computed where there is none."""

KEPT_CACHES = 2
"""`kKeptCaches` of cache.cuh. Kernels ask the L2 cache to keep their input if a matrix is more than this many times as large as
the cache. That makes them faster. With smaller matrices, it makes the next kernel slower by as much or more: see
docs/kernels.md."""


def cache_bytes(device: torch.device) -> float:
    """Bytes of the L2 cache of an NVIDIA device; infinity for others, for which no hint was measured."""
    if device.type == "cuda" and torch.version.hip is None:
        return int(_properties(device).L2_cache_size)
    return math.inf


def load_policy(matrix_bytes: int, cache_bytes: float) -> str:
    """The `eviction_policy` of the loads of a kernel that reads and writes matrices of so many bytes each."""
    return "evict_last" if matrix_bytes > KEPT_CACHES * cache_bytes else ""


def load_policy_for(x: torch.Tensor) -> str:
    """The policy for a kernel that reads and writes matrices of the size and the dtype of x."""
    return load_policy(x.numel() * x.element_size(), cache_bytes(x.device))


def caps_registers(device: torch.device) -> bool:
    """Whether to set `maxnreg` for speed. Triton has it for NVIDIA only: on sm_90, where the compiler meets kbench's limits
    without spilling. The interpreter accepts it too."""
    if device.type == "cuda" and torch.version.hip is None:
        return bool(_properties(device).major == 9)
    return device.type == "cpu"


def multiprocessors(device: torch.device) -> int:
    """Multiprocessors of the device; each holds at least one program. 4 under the interpreter."""
    return int(_properties(device).multi_processor_count) if device.type == "cuda" else 4


def waiting_multiprocessors(device: torch.device) -> int:
    """Multiprocessors whose programs can wait for each other; 0 if programs cannot. Under the interpreter, which runs them one
    after another, as many as an H200 has."""
    return multiprocessors(device) if device.type == "cuda" else 132 if device.type == "cpu" else 0


def largest_team(multiprocessors: int, threads: int) -> int:
    """Programs of so many threads that the device holds at once, whatever registers they take. If programs wait for more of
    them than that, they may wait forever. A multiprocessor has registers for 256 threads that take as many as possible.

    Launches that wait at the same time on other streams take places too. Nothing guards against so many of them that no team
    is complete: with 4 programs on each of 132 multiprocessors, at least five launches."""
    return multiprocessors * max(1, 256 // threads)


def occupancy(properties: Any, num_warps: int, registers: int, shared_bytes: int) -> int:
    """Programs that one multiprocessor holds at once, at least 1.

    `properties` are torch's device properties. A program has `num_warps` warps and `shared_bytes` of shared memory, and a
    thread has `registers` registers. From the CUDA C++ Programming Guide, technical specifications per compute
    capability: a warp gets registers in units of 256, and the system takes 1 KiB of shared memory per block.
    """
    threads = num_warps * properties.warp_size
    resident: int = min(
        32,  # blocks per multiprocessor on sm_80 and sm_90
        properties.max_threads_per_multi_processor // threads,
        properties.regs_per_multiprocessor // (threads * 8 * math.ceil(max(registers, 1) / 8)),
        properties.shared_memory_per_multiprocessor // (shared_bytes + 1024),
    )
    return max(resident, 1)
