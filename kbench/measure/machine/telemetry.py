"""Clocks, power, temperature and throttle reasons of the device, read around each round.

NVIDIA devices answer through NVML (nvidia-ml-py), AMD's through amdsmi, each where its package is installed. Where
nothing answers, every reading is empty and measuring goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from kbench.measure.machine.device import Device

NVML_THROTTLE = {0x4: "power-cap", 0x8: "hw-slowdown", 0x20: "sw-thermal", 0x40: "hw-thermal", 0x80: "power-brake"}
"""Bits of NVML's clock event reasons that say that the device runs slower than it could; idle and user settings do not."""


@dataclass(frozen=True)
class Reading:
    """One look at the device. MHz, watts, degrees Celsius; None where the device does not tell."""

    sm_mhz: float | None = None
    power_w: float | None = None
    temp_c: float | None = None
    throttle: tuple[str, ...] = ()


class Telemetry(Protocol):
    """What reads a device."""

    source: str
    """Which library answers; empty when none does."""

    driver: str
    """Version of the device's driver; empty where unknown."""

    def read(self) -> Reading: ...

    def limits(self) -> dict[str, float | None]:
        """Clock and power limits, for the environment file."""

    def peak_gbps(self) -> float | None:
        """Bandwidth of the memory in theory: bus width x clock x 2 for double data rate."""

    def others(self) -> list[int] | None:
        """Process ids of other programs that compute on the device; None where that is not known."""


def telemetry(device: Device) -> Telemetry:
    """The first of NVML, amdsmi and nothing that answers for this device."""
    if device.type == "cuda":
        for reader in (Nvml, AmdSmi):
            try:
                return reader(device)
            except (ImportError, OSError, Unanswered):
                continue
    return Nothing()


class Unanswered(Exception):
    """The library is there, but does not know this device."""


class Nothing:
    """No telemetry: a host, or a device whose library is not installed."""

    source = driver = ""

    def read(self) -> Reading:
        return Reading()

    def limits(self) -> dict[str, float | None]:
        return {}

    def peak_gbps(self) -> float | None:
        return None

    def others(self) -> list[int] | None:
        return None


class Nvml:
    """NVIDIA's management library. Raises ImportError or Unanswered where it does not serve."""

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

    def read(self) -> Reading:
        nvml = self._nvml
        mask = int(self._ask(nvml.nvmlDeviceGetCurrentClocksEventReasons) or 0)
        return Reading(
            sm_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            power_w=_thousandth(self._ask(nvml.nvmlDeviceGetPowerUsage)),
            temp_c=self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            throttle=tuple(name for bit, name in NVML_THROTTLE.items() if mask & bit),
        )

    def limits(self) -> dict[str, float | None]:
        nvml = self._nvml
        return {
            "max_sm_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_SM),
            "max_mem_mhz": self._ask(nvml.nvmlDeviceGetMaxClockInfo, nvml.NVML_CLOCK_MEM),
            "bus_bits": self._ask(nvml.nvmlDeviceGetMemoryBusWidth),
            "power_limit_w": _thousandth(self._ask(nvml.nvmlDeviceGetPowerManagementLimit)),
        }

    def peak_gbps(self) -> float | None:
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


class AmdSmi:
    """AMD's management library. Written from its documentation and tested against a stand-in, not on a device."""

    def __init__(self, device: Device) -> None:
        import amdsmi

        self._smi: Any = amdsmi
        try:
            amdsmi.amdsmi_init()
            handles = amdsmi.amdsmi_get_processor_handles()
        except amdsmi.AmdSmiException as error:
            raise Unanswered(str(error)) from None
        index = device.index or 0  # amdsmi counts all cards of the host, torch those that this process may see
        if index >= len(handles):
            raise Unanswered(f"amdsmi knows {len(handles)} devices, not number {index}")
        self._handle = handles[index]
        self.source, self.driver = "amdsmi", ""

    def read(self) -> Reading:
        smi = self._smi
        clock = self._ask(smi.amdsmi_get_clock_info, smi.AmdSmiClkType.GFX) or {}
        power = self._ask(smi.amdsmi_get_power_info) or {}
        celsius = self._ask(
            smi.amdsmi_get_temp_metric, smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
        )
        metrics = self._ask(smi.amdsmi_get_gpu_metrics_info) or {}
        throttled = isinstance(metrics.get("throttle_status"), int) and metrics["throttle_status"]
        return Reading(
            sm_mhz=_number(clock.get("clk")),
            power_w=_number(power.get("current_socket_power")) or _number(power.get("average_socket_power")),
            temp_c=_number(celsius),
            throttle=("throttled",) if throttled else (),
        )

    def limits(self) -> dict[str, float | None]:
        clock = self._ask(self._smi.amdsmi_get_clock_info, self._smi.AmdSmiClkType.GFX) or {}
        return {"max_sm_mhz": _number(clock.get("max_clk"))}

    def peak_gbps(self) -> float | None:
        vram = self._ask(self._smi.amdsmi_get_gpu_vram_info) or {}
        return _number(vram.get("vram_max_bandwidth"))

    def others(self) -> list[int] | None:
        return None

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(self._handle, *arguments)
        except self._smi.AmdSmiException:
            return None  # not every device answers every question


def summary(readings: Sequence[Reading]) -> dict[str, Any]:
    """The telemetry columns of a row: medians over its rounds, every throttle reason seen."""

    def middle(values: list[float | None]) -> float | None:
        known = [v for v in values if v is not None]
        return float(median(known)) if known else None

    return {
        "sm_mhz": middle([r.sm_mhz for r in readings]),
        "power_w": middle([r.power_w for r in readings]),
        "temp_c": middle([r.temp_c for r in readings]),
        "throttle": ";".join(sorted({reason for r in readings for reason in r.throttle})),
    }


def _thousandth(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _number(value: Any) -> float | None:
    """A number as amdsmi gives it: a string such as "N/A" means that it does not know."""
    return float(value) if isinstance(value, (int, float)) else None
