"""The sources of telemetry."""

from __future__ import annotations

from collections.abc import Callable

from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Nothing, Telemetry, Unanswered
from kbench.measure.machine.telemetry_amd import AmdSmi
from kbench.measure.machine.telemetry_nvidia import Nvml

TELEMETRY: dict[str, tuple[Callable[[Device], Telemetry], ...]] = {
    "cuda": (Nvml, AmdSmi),  # the device type of AMD devices in torch is `cuda`, too
}
"""The sources for each device type, in the order in which kbench tries them. To add a source, write a class in a file beside
this one and add it here."""


def find_telemetry(device: Device) -> Telemetry:
    """The first source that answers for this device; Nothing if none does."""
    for source in TELEMETRY.get(device.type, ()):
        try:
            return source(device)
        except (ImportError, OSError, Unanswered):
            continue
    return Nothing()
