"""What one call launches on a device: kernels with their resources and grids, and operations on memory. And how much of it a
multiprocessor of the device holds at the same time, and what limits that."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kbench.results.stamps import digest

CODE_DIGITS = 8
"""Hexadecimal digits of each half of `code`."""

BY_NAME = "name and "
"""The beginning of the origin of a kernel whose machine code is not known."""

MACHINE_CODE = "machine code"
"""The origin of a kernel whose machine code is in a file of its own. ` in` and the name of a library may follow."""

UNSURE = "~"
"""The beginning of the code of a call with such a kernel."""

WARP_THREADS = 32

REGISTER_STEP, WARP_STEP = 256, 4
"""NVIDIA's multiprocessors give registers to a warp in steps of 256, and each of their four parts holds warps of its own. This
is from the occupancy calculator of the CUDA toolkit, for compute capability 7.0 to 10.0."""


@dataclass(frozen=True)
class Kernel:
    """A kernel, as the driver has loaded it.

    name                 as programmers write it; long names are cut
    symbol               its name in the machine code
    registers            of a thread
    local_bytes          local memory of a thread, in bytes: spilled registers, and arrays that are not in registers
    static_shared_bytes  shared memory of a block that is known when the kernel is compiled, in bytes
    code                 a digest of its machine code or, if kbench cannot get at that, of what `origin` says
    origin               what the digest was made of: `machine code`, or `name and torch 2.11.0`
    """

    name: str
    symbol: str
    registers: int
    local_bytes: int
    static_shared_bytes: int
    code: str
    origin: str

    @property
    def by_name(self) -> bool:
        """Whether `code` stands only for its name and the versions of packages."""
        return self.origin.startswith(BY_NAME)

    @property
    def id(self) -> str:
        """By which launches refer to it. Different kernels have different ids."""
        return digest([self.symbol, self.code, self.registers, self.local_bytes, self.static_shared_bytes])


@dataclass(frozen=True)
class KernelLaunch:
    """One or more launches of a kernel that are alike.

    grid                  the number of blocks in each dimension
    block                 the number of threads of a block in each dimension
    dynamic_shared_bytes  shared memory of a block that the launch asks for, in bytes
    blocks_per_sm         how many blocks fit on a multiprocessor at the same time; None if it is not known
    times                 how often the call launches it
    """

    kernel: Kernel
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_shared_bytes: int
    blocks_per_sm: int | None = None
    times: int = 1


@dataclass(frozen=True)
class MemoryOperation:
    """Copies (`memcpy`) or fills (`memset`) of the same size that the driver does for a call."""

    operation: str
    bytes: int
    times: int = 1


@dataclass(frozen=True)
class LaunchedCall:
    """What one call launches. Launches that are alike stand together, in the order of the first of each."""

    launches: tuple[KernelLaunch, ...] = ()
    memory: tuple[MemoryOperation, ...] = ()

    @property
    def kernels(self) -> int:
        """The number of kernels that the call launches."""
        return sum(launch.times for launch in self.launches)

    @property
    def code(self) -> str:
        """Two digests with a dash between them: of the kernels' machine code, and of how they are launched. Empty for a call
        that launches nothing. The first begins with `UNSURE` if kbench knows a kernel only by its name."""
        if not self.launches and not self.memory:
            return ""
        kernels = [launch.kernel.id for launch in self.launches]
        unsure = UNSURE * any(launch.kernel.by_name for launch in self.launches)
        ways = [[launch.grid, launch.block, launch.dynamic_shared_bytes, launch.times] for launch in self.launches]
        memory = [[operation.operation, operation.bytes, operation.times] for operation in self.memory]
        return f"{unsure}{digest(kernels)[:CODE_DIGITS]}-{digest([ways, memory])[:CODE_DIGITS]}"


def machine_code_of(code: str) -> str:
    """The half of `code` that stands for the machine code."""
    return code.partition("-")[0]


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
