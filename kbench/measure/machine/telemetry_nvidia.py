"""Telemetry of NVIDIA devices, through NVML (package nvidia-ml-py)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Quantities, Unanswered

NVML_THROTTLE = {0x4: "power-cap", 0x8: "hw-slowdown", 0x20: "sw-thermal", 0x40: "hw-thermal", 0x80: "power-brake"}
"""The bits of NVML's clock event reasons that mean throttling, and the word for each. The bits for an idle device and for
clocks that a user has set do not mean throttling."""


class Nvml:
    """Reads a device with NVML. Raises ImportError without the library, Unanswered if NVML does not know the device."""

    def __init__(self, device: Device) -> None:
        import pynvml
        import torch

        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            uuid = torch.cuda.get_device_properties(device.torch_device).uuid
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            self.source, self.driver = "NVML", str(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as error:
            raise Unanswered(str(error)) from None

    def read(self) -> Quantities:
        nvml = self._nvml
        mask = int(self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons) or 0)
        return {
            "sm_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            "power_w": _thousandth(self._ask(nvml.nvmlDeviceGetPowerUsage)),
            "temp_c": self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            "throttle": tuple(name for bit, name in NVML_THROTTLE.items() if mask & bit),
        }

    def energy_counter_mj(self) -> float | None:
        found: float | None = self._ask(self._nvml.nvmlDeviceGetTotalEnergyConsumption)
        return found

    def limits(self) -> dict[str, float | None]:
        nvml = self._nvml
        return {
            "max_sm_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
            "max_mem_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
            "bus_bits": self._ask(nvml.nvmlDeviceGetMemoryBusWidth),
            "power_limit_w": _thousandth(self._ask(nvml.nvmlDeviceGetPowerManagementLimit)),
        }

    def peak_gbps(self) -> float | None:
        return self._peak_gbps

    @cached_property
    def _peak_gbps(self) -> float | None:
        """Asked for once: NVML takes milliseconds to answer."""
        limits = self.limits()
        mhz, bits = limits["max_mem_mhz"], limits["bus_bits"]
        return None if mhz is None or bits is None else mhz * 1e6 * 2 * bits / 8 * 1e-9

    def others(self) -> list[int] | None:
        processes = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses)
        return None if processes is None else [p.pid for p in processes if p.pid != os.getpid()]

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None  # not every device answers every question


def _thousandth(value: float | None) -> float | None:
    return None if value is None else value / 1000
