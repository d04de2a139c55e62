"""Telemetry of AMD devices, through amdsmi."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Quantities, Unanswered


class AmdSmi:
    """Reads a device with amdsmi. Raises ImportError without the library, Unanswered if amdsmi does not know the device.

    This class was written from the documentation of amdsmi and tested with a fake library. It was never run on a device.
    """

    def __init__(self, device: Device) -> None:
        import amdsmi

        self._smi: Any = amdsmi
        try:
            amdsmi.amdsmi_init()
            handles = amdsmi.amdsmi_get_processor_handles()
        except amdsmi.AmdSmiException as error:
            raise Unanswered(str(error)) from None
        index = device.index or 0  # amdsmi counts all cards of the host; torch counts the cards that this process sees
        if index >= len(handles):
            raise Unanswered(f"amdsmi lists {len(handles)} devices, but none has number {index}")
        self._handle = handles[index]
        self.source, self.driver = "amdsmi", ""

    def read(self) -> Quantities:
        smi = self._smi
        clock = self._ask(smi.amdsmi_get_clock_info, smi.AmdSmiClkType.GFX) or {}
        power = self._ask(smi.amdsmi_get_power_info) or {}
        celsius = self._ask(
            smi.amdsmi_get_temp_metric, smi.AmdSmiTemperatureType.HOTSPOT, smi.AmdSmiTemperatureMetric.CURRENT
        )
        metrics = self._ask(smi.amdsmi_get_gpu_metrics_info) or {}
        throttled = isinstance(metrics.get("throttle_status"), int) and metrics["throttle_status"]
        return {
            "sm_mhz": _number(clock.get("clk")),
            "power_w": _number(power.get("current_socket_power")) or _number(power.get("average_socket_power")),
            "temp_c": _number(celsius),
            "throttle": ("throttled",) if throttled else (),
        }

    def energy_counter_mj(self) -> float | None:
        return None

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


def _number(value: Any) -> float | None:
    """A number from amdsmi; None for a string such as "N/A", which it returns for an unknown value."""
    return float(value) if isinstance(value, (int, float)) else None
