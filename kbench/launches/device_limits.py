"""How much a multiprocessor of a device holds, and which of it limits a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kbench.launches.launched_call import KernelLaunch

WARP_THREADS = 32

REGISTER_STEP, WARP_STEP = 256, 4
"""NVIDIA's multiprocessors give registers to a warp in steps of 256, and each of their four parts holds warps of its own. This
is from the occupancy calculator of the CUDA toolkit, for compute capability 7.0 to 10.0."""


@dataclass(frozen=True)
class DeviceLimits:
    """What the multiprocessors of a device hold, as the driver reports it.

    multiprocessors        their number
    threads                of one of them
    registers              of one of them, 32 bits each
    shared_bytes           of one of them
    blocks                 the largest number on one of them
    reserved_shared_bytes  shared memory of each block that the system takes
    """

    multiprocessors: int
    threads: int
    registers: int
    shared_bytes: int
    blocks: int
    reserved_shared_bytes: int


@dataclass(frozen=True)
class Occupancy:
    """How many threads of a launch a multiprocessor holds at the same time.

    blocks   that fit
    share    of the threads that a multiprocessor can hold
    limits   what is too little for one more block: `registers`, `shared memory`, `threads`, `blocks`
    waves    the number of blocks of the launch, divided by the number that the whole device holds at the same time
    """

    blocks: int
    share: float
    limits: tuple[str, ...]
    waves: float


def launch_occupancy(launch: KernelLaunch, device: DeviceLimits) -> Occupancy | None:
    """The occupancy that the resources of a launch allow; None if the driver did not say how many blocks fit."""
    blocks, threads = launch.blocks_per_sm, prod(launch.block)
    if not blocks or not threads:
        return None
    kernel, warps = launch.kernel, -(-threads // WARP_THREADS)
    warp_registers = max(1, -(-kernel.registers * WARP_THREADS // REGISTER_STEP)) * REGISTER_STEP
    shared_bytes = kernel.static_shared_bytes + launch.dynamic_shared_bytes + device.reserved_shared_bytes
    left = {  # if there were one block more
        "registers": device.registers // warp_registers // WARP_STEP * WARP_STEP - (blocks + 1) * warps,
        "shared memory": device.shared_bytes - (blocks + 1) * shared_bytes,
        "threads": device.threads - (blocks + 1) * warps * WARP_THREADS,
        "blocks": device.blocks - (blocks + 1),
    }
    return Occupancy(
        blocks=blocks,
        share=blocks * threads / device.threads,
        limits=tuple(name for name, count in left.items() if count < 0),
        waves=prod(launch.grid) / (blocks * device.multiprocessors),
    )
