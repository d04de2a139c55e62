"""NVIDIA devices as NVML (package nvidia-ml-py) describes them, without torch: clocks, power, settings and processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SET_CLOCKS = 0x2
"""The bit of NVML's clock event reasons for a clock that a user's setting limits."""

THROTTLING = {
    0x4: "power-cap",
    0x8: "hw-slowdown",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "power-brake",
}
"""The bits of NVML's clock event reasons that mean throttling, and the word for each. The bits for an idle device and for
clocks that a user has set do not mean throttling."""

CLOCK_TOLERANCE = 0.005
"""Two clocks that differ by at most this share count as equal. It is less than a step of the clock: 15 MHz, which is 0.76 % of
the highest clock of an H200."""

LOCKABLE_SINCE = (7, 0)
"""NVML locks the clocks of devices from this compute capability on (Volta)."""


class CardError(Exception):
    """NVML does not know a device or refuses a request. The message is NVML's. `denied`: this user has not the right."""

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        self.denied = denied


class Card:
    """One device of this host. Clocks are in MHz. Questions that the device does not answer have the answer None.

    Raises CardError if NVML does not answer or does not know the UUID."""

    def __init__(self, uuid: str) -> None:
        try:
            import pynvml
        except ImportError:
            raise CardError("the package nvidia-ml-py is not installed") from None
        self._nvml: Any = pynvml
        self.uuid = uuid
        self._call(lambda handle: pynvml.nvmlInit())
        self._handle = self._call(lambda handle: pynvml.nvmlDeviceGetHandleByUUID(uuid))
        self.name = str(self._call(pynvml.nvmlDeviceGetName))

    def __str__(self) -> str:
        return f"{self.name} ({self.uuid})"

    def driver(self) -> str:
        return str(self._ask(lambda handle: self._nvml.nvmlSystemGetDriverVersion()) or "")

    def sm_mhz(self) -> int | None:
        """The clock of the processors now."""
        return self._number(self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM)

    def memory_mhz(self) -> int | None:
        """The clock of the memory now."""
        return self._number(self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_MEM)

    def max_sm_mhz(self) -> int | None:
        return self._number(self._nvml.nvmlDeviceGetMaxClockInfo, self._nvml.NVML_CLOCK_SM)

    def max_memory_mhz(self) -> int | None:
        return self._number(self._nvml.nvmlDeviceGetMaxClockInfo, self._nvml.NVML_CLOCK_MEM)

    def supported_sm_mhz(self) -> list[int]:
        """The clocks to which the device can be locked; empty if it does not tell."""
        memory_mhz = self.max_memory_mhz()
        clocks = memory_mhz and self._ask(self._nvml.nvmlDeviceGetSupportedGraphicsClocks, memory_mhz)
        return sorted(clocks or [])

    def application_mhz(self) -> tuple[int, int] | None:
        """The application clock of the processors and its default; None if the device has none."""
        clock = self._number(self._nvml.nvmlDeviceGetApplicationsClock, self._nvml.NVML_CLOCK_GRAPHICS)
        default = self._number(self._nvml.nvmlDeviceGetDefaultApplicationsClock, self._nvml.NVML_CLOCK_GRAPHICS)
        return None if clock is None or default is None else (clock, default)

    def lockable(self) -> bool:
        """Whether devices of this kind can be locked. A MIG instance cannot."""
        capability = self._ask(self._nvml.nvmlDeviceGetCudaComputeCapability)
        return capability is not None and tuple(capability) >= LOCKABLE_SINCE and not self.uuid.startswith("MIG-")

    def limited_by_a_setting(self) -> bool:
        """Whether a setting other than the application clock limits the clock now. NVML cannot be asked for a lock, so this is
        how a lock shows."""
        if not self._clock_events() & SET_CLOCKS:
            return False
        application, mhz = self.application_mhz(), self.sm_mhz()
        return application is None or (mhz is not None and not same_clock(mhz, application[0]))

    def lock_sm(self, mhz: int | None) -> None:
        """Lock the clock of the processors; None means the base clock. Raises CardError."""
        limit = self._nvml.NVML_CLOCK_LIMIT_ID_TDP if mhz is None else mhz
        self._call(self._nvml.nvmlDeviceSetGpuLockedClocks, limit, limit)

    def lock_memory(self, mhz: int) -> bool:
        """Lock the clock of the memory. False if the device cannot: many lock the clock of the processors only."""
        try:
            self._call(self._nvml.nvmlDeviceSetMemoryLockedClocks, mhz, mhz)
        except CardError:
            return False
        return True

    def unlock(self) -> None:
        """Undo both locks. Does no harm where there is none. Raises CardError."""
        self._call(self._nvml.nvmlDeviceResetGpuLockedClocks)
        self._ask(self._nvml.nvmlDeviceResetMemoryLockedClocks)

    def power_w(self) -> float | None:
        return _thousandth(self._number(self._nvml.nvmlDeviceGetPowerUsage))

    def power_limit_w(self) -> float | None:
        return _thousandth(self._number(self._nvml.nvmlDeviceGetPowerManagementLimit))

    def celsius(self) -> float | None:
        return self._number(self._nvml.nvmlDeviceGetTemperature, self._nvml.NVML_TEMPERATURE_GPU)

    def throttling(self) -> tuple[str, ...]:
        """Why the device lowers its clock now, in words of THROTTLING."""
        events = self._clock_events()
        return tuple(word for bit, word in THROTTLING.items() if events & bit)

    def bus_bits(self) -> int | None:
        """The width of the memory's bus."""
        return self._number(self._nvml.nvmlDeviceGetMemoryBusWidth)

    def persistent(self) -> bool | None:
        """Whether the driver stays loaded while no program uses the device."""
        mode = self._ask(self._nvml.nvmlDeviceGetPersistenceMode)
        return None if mode is None else bool(mode)

    def ecc(self) -> bool | None:
        """Whether the memory corrects errors."""
        now_and_after_a_restart = self._ask(self._nvml.nvmlDeviceGetEccMode)
        return None if now_and_after_a_restart is None else bool(now_and_after_a_restart[0])

    def process_ids(self) -> list[int] | None:
        """The processes that compute on the device."""
        processes = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses)
        return None if processes is None else [process.pid for process in processes]

    _handle: Any = None

    def _clock_events(self) -> int:
        return self._number(self._nvml.nvmlDeviceGetCurrentClocksEventReasons) or 0

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            denied = error.value == self._nvml.NVML_ERROR_NO_PERMISSION
            raise CardError(str(error), denied=denied) from None

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._call(question, *arguments)
        except CardError:
            return None  # not every device answers every question

    def _number(self, question: Callable[..., Any], *arguments: Any) -> int | None:
        answer = self._ask(question, *arguments)
        return None if answer is None else int(answer)


def same_clock(mhz: float, other_mhz: float) -> bool:
    return abs(mhz - other_mhz) <= CLOCK_TOLERANCE * other_mhz


def _thousandth(value: float | None) -> float | None:
    return None if value is None else value / 1000
