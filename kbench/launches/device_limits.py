"""How much a multiprocessor of a device holds, and which of it limits a kernel."""

from __future__ import annotations

from dataclasses import dataclass

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
    limits   what allows no more blocks: `registers`, `shared memory`, `threads`, `blocks`; several if they agree
    waves    the number of blocks of the launch, divided by the number that the whole device holds at the same time
    """

    blocks: int
    share: float
    limits: tuple[str, ...]
    waves: float


def launch_occupancy(launch: KernelLaunch, device: DeviceLimits) -> Occupancy | None:
    """The occupancy that the resources of a launch allow; None if the driver did not say how many blocks fit."""
    x, y, z = launch.block
    threads = x * y * z
    if not launch.blocks_per_sm or not threads:
        return None
    allowed = _blocks_by_resource(launch, device, threads)
    fewest = min(allowed.values())
    limits = tuple(name for name, count in allowed.items() if count == fewest) if fewest == launch.blocks_per_sm else ()
    grid_x, grid_y, grid_z = launch.grid
    return Occupancy(
        blocks=launch.blocks_per_sm,
        share=launch.blocks_per_sm * threads / device.threads,
        limits=limits,
        waves=grid_x * grid_y * grid_z / (launch.blocks_per_sm * device.multiprocessors),
    )


def _blocks_by_resource(launch: KernelLaunch, device: DeviceLimits, threads: int) -> dict[str, int]:
    """How many blocks of a launch each resource of a multiprocessor allows."""
    warps = -(-threads // WARP_THREADS)
    registers = -(-launch.kernel.registers * WARP_THREADS // REGISTER_STEP) * REGISTER_STEP
    shared = launch.kernel.static_shared_bytes + launch.dynamic_shared_bytes + device.reserved_shared_bytes
    return {
        "registers": (device.registers // max(registers, 1)) // WARP_STEP * WARP_STEP // warps,
        "shared memory": device.shared_bytes // max(shared, 1),
        "threads": device.threads // (warps * WARP_THREADS),
        "blocks": device.blocks,
    }
