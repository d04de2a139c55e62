"""Clocks, power, temperature and throttle reasons of the device, read around each round.

NVIDIA devices answer through NVML (nvidia-ml-py). Where nothing answers every reading is empty: measuring goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from kbench.measure.device import Device

THROTTLE_REASONS = {
    0x4: "power-cap",
    0x8: "hw-slowdown",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "power-brake",
}


@dataclass(frozen=True)
class Reading:
    """One look at the device. MHz, watts, degrees Celsius; None where the device does not tell."""

    sm_mhz: float | None = None
    power_w: float | None = None
    temp_c: float | None = None
    throttle: tuple[str, ...] = ()


class Telemetry:
    """Reads the device under test; `driver` is its driver's version, empty where unknown."""

    def __init__(self, device: Device) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        self.driver = ""
        if device.type != "cuda":
            return
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(_uuid(device))
            self.driver = str(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError:
            return  # no NVIDIA driver (AMD), or one that hides the device: readings stay empty
        self._nvml = pynvml

    def read(self) -> Reading:
        nvml = self._nvml
        if nvml is None:
            return Reading()
        mask = int(self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons) or 0)
        milliwatts = self._ask(nvml.nvmlDeviceGetPowerUsage)
        return Reading(
            sm_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            power_w=None if milliwatts is None else milliwatts / 1000,
            temp_c=self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            throttle=tuple(name for bit, name in THROTTLE_REASONS.items() if mask & bit),
        )

    def limits(self) -> dict[str, float | None]:
        """Clock and power limits, for the environment file."""
        nvml = self._nvml
        if nvml is None:
            return {}
        power = self._ask(nvml.nvmlDeviceGetPowerManagementLimit)
        return {
            "max_sm_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
            "max_mem_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
            "power_limit_w": None if power is None else power / 1000,
        }

    def _ask(self, question: Any, *arguments: Any) -> float | None:
        try:
            answer: float = question(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None  # not every device answers every question
        return answer


def summary(readings: list[Reading]) -> dict[str, Any]:
    """The telemetry columns of a row: medians over its rounds, every throttle reason seen."""

    def middle(values: list[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return float(median(known)) if known else None

    seen = sorted({reason for r in readings for reason in r.throttle})
    return {
        "sm_mhz": middle([r.sm_mhz for r in readings]),
        "power_w": middle([r.power_w for r in readings]),
        "temp_c": middle([r.temp_c for r in readings]),
        "throttle": ";".join(seen),
    }


def _uuid(device: Device) -> str:
    import torch

    return f"GPU-{torch.cuda.get_device_properties(device.torch_device).uuid}"
