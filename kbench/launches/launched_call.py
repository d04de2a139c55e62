"""What one call launches on a device: kernels with their resources and grids, and operations on memory."""

from __future__ import annotations

from dataclasses import dataclass

from kbench.results.stamps import digest

CODE_DIGITS = 8
"""Hexadecimal digits of each half of `code`."""


BY_NAME = "name and "
"""The beginning of the origin of a kernel whose machine code is not known."""

MACHINE_CODE = "machine code"
"""The origin of a kernel whose machine code is in a file of its own. ` in` and the name of a library may follow."""

UNSURE = "~"
"""The beginning of the code of a call with such a kernel."""


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
