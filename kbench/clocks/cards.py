"""NVIDIA devices as NVML (package nvidia-ml-py) describes them, without torch: their clocks, settings and processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

SET_CLOCKS = 0x2
"""The bit of NVML's clock event reasons for a clock that a user's setting limits."""

CLOCK_TOLERANCE = 0.005
"""Two clocks that differ by at most this share count as equal. It is less than a step of the clock: 15 MHz, which is 0.76 % of
the highest clock of an H200."""

LOCKABLE_SINCE = (7, 0)
"""NVML locks the clocks of devices from this compute capability on (Volta)."""


class CardError(Exception):
    """NVML does not know a device or refuses a request. The message is NVML's.

    denied       this user has not the right
    unsupported  the device or its driver cannot do it
    """

    def __init__(self, message: str, *, denied: bool = False, unsupported: bool = False) -> None:
        super().__init__(message)
        self.denied, self.unsupported = denied, unsupported


class EccMode(NamedTuple):
    """Whether the memory corrects errors: now, and after the next restart."""

    now: bool
    pending: bool


class Card:
    """One device of this host. Clocks are in MHz. Raises CardError if NVML does not answer or does not know the UUID."""

    def __init__(self, uuid: str) -> None:
        try:
            import pynvml
        except ImportError:
            raise CardError("the package nvidia-ml-py is not installed", unsupported=True) from None
        self._nvml: Any = pynvml
        self.uuid = uuid
        self._call(lambda handle: pynvml.nvmlInit())
        self._handle = self._call(lambda handle: pynvml.nvmlDeviceGetHandleByUUID(uuid))
        self.name = str(self._call(pynvml.nvmlDeviceGetName))

    def sm_mhz(self) -> int:
        """The clock of the processors now. Raises CardError."""
        return int(self._call(self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM))

    def memory_mhz(self) -> int:
        """The clock of the memory now. Raises CardError."""
        return int(self._call(self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_MEM))

    def max_sm_mhz(self) -> int | None:
        return self._highest_mhz(self._nvml.NVML_CLOCK_SM)

    def max_memory_mhz(self) -> int | None:
        return self._highest_mhz(self._nvml.NVML_CLOCK_MEM)

    def supported_sm_mhz(self) -> list[int]:
        """The clocks to which the device can be locked; empty if it does not tell."""
        memory_mhz = self.max_memory_mhz()
        found = None if memory_mhz is None else self._ask(self._nvml.nvmlDeviceGetSupportedGraphicsClocks, memory_mhz)
        return sorted(found or [])

    def lock_sm(self, mhz: int | None) -> None:
        """Lock the clock of the processors; None means the base clock. Raises CardError."""
        wanted = self._nvml.NVML_CLOCK_LIMIT_ID_TDP if mhz is None else mhz
        self._call(self._nvml.nvmlDeviceSetGpuLockedClocks, wanted, wanted)

    def lock_memory(self, mhz: int) -> None:
        """Lock the clock of the memory. Raises CardError."""
        self._call(self._nvml.nvmlDeviceSetMemoryLockedClocks, mhz, mhz)

    def unlock_sm(self) -> None:
        """Raises CardError."""
        self._call(self._nvml.nvmlDeviceResetGpuLockedClocks)

    def unlock_memory(self) -> None:
        """Does nothing on a device whose memory cannot be locked. Raises CardError."""
        try:
            self._call(self._nvml.nvmlDeviceResetMemoryLockedClocks)
        except CardError as error:
            if not error.unsupported:
                raise

    def lockable(self) -> bool:
        """Whether devices of this kind can be locked. A MIG instance cannot."""
        capability = self._ask(self._nvml.nvmlDeviceGetCudaComputeCapability)
        return capability is not None and tuple(capability) >= LOCKABLE_SINCE and not self.uuid.startswith("MIG-")

    def application_mhz(self) -> tuple[int, int] | None:
        """The application clock of the processors and its default; None if the device has none."""
        clock = self._ask(self._nvml.nvmlDeviceGetApplicationsClock, self._nvml.NVML_CLOCK_GRAPHICS)
        default = self._ask(self._nvml.nvmlDeviceGetDefaultApplicationsClock, self._nvml.NVML_CLOCK_GRAPHICS)
        return None if clock is None or default is None else (clock, default)

    def limited_by_a_setting(self) -> bool:
        """Whether a setting other than the application clock limits the clock now. NVML cannot be asked for a lock, so this is
        how a lock shows that another program has set."""
        reasons = self._ask(self._nvml.nvmlDeviceGetCurrentClocksEventReasons) or 0
        if not reasons & SET_CLOCKS:
            return False
        application = self.application_mhz()
        return application is None or not same_clock(self.sm_mhz(), application[0])

    def persistent(self) -> bool | None:
        """Whether the driver stays loaded while no program uses the device; None if unknown."""
        mode = self._ask(self._nvml.nvmlDeviceGetPersistenceMode)
        return None if mode is None else bool(mode)

    def ecc(self) -> EccMode | None:
        """None if the device has no ECC, or does not tell."""
        modes = self._ask(self._nvml.nvmlDeviceGetEccMode)
        return None if modes is None else EccMode(*map(bool, modes))

    def process_ids(self) -> list[int]:
        """The processes that compute on the device."""
        return [process.pid for process in self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses) or []]

    def pci_address(self) -> str | None:
        """As Linux writes it: `0000:1a:00.0`."""
        found = self._ask(self._nvml.nvmlDeviceGetPciInfo)
        if found is None:
            return None
        address = found.busId.decode() if isinstance(found.busId, bytes) else str(found.busId)
        return address.lower()[-len("0000:00:00.0") :]

    _handle: Any = None

    def _highest_mhz(self, kind: int) -> int | None:
        found = self._ask(self._nvml.nvmlDeviceGetMaxClockInfo, kind)
        return None if found is None else int(found)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        nvml = self._nvml
        try:
            return function(self._handle, *arguments)
        except nvml.NVMLError as error:
            code = error.value
            unsupported = code in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            raise CardError(str(error), denied=code == nvml.NVML_ERROR_NO_PERMISSION, unsupported=unsupported) from None

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._call(question, *arguments)
        except CardError:
            return None  # not every device answers every question


def same_clock(mhz: float, other_mhz: float) -> bool:
    return abs(mhz - other_mhz) <= CLOCK_TOLERANCE * other_mhz
