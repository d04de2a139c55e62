"""Stands in for the package nvidia-ml-py, which needs NVIDIA's driver. The devices are in a file, so that they outlive
processes.

The variable FAKE_NVML names the file: a mapping from UUIDs to what each device is and does (see `device` of
tests/nvml_devices.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM = 0, 1, 2
NVML_CLOCK_LIMIT_ID_TDP = 0xFFFFFF01
NVML_TEMPERATURE_GPU = 0
NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION, NVML_ERROR_NOT_FOUND, NVML_ERROR_FUNCTION_NOT_FOUND = 3, 4, 6, 13


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__({3: "Not Supported", 4: "Insufficient Permissions", 6: "Not Found"}[value])
        self.value = value


def _devices() -> dict[str, Any]:
    return json.loads(Path(os.environ["FAKE_NVML"]).read_text())


def _known(uuid: str, name: str) -> Any:
    """A property of a device; None means that the device does not support the question."""
    if (value := _devices()[uuid][name]) is None:
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return value


def _set(uuid: str, **changes: object) -> None:
    found = _devices()
    if found[uuid]["denied"]:
        raise NVMLError(NVML_ERROR_NO_PERMISSION)
    found[uuid] |= changes
    path = Path(os.environ["FAKE_NVML"])
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(found))
    beside.replace(path)


def nvmlInit() -> None:
    _devices()


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:
    if uuid not in _devices():
        raise NVMLError(NVML_ERROR_NOT_FOUND)
    return uuid


def nvmlDeviceGetClockInfo(uuid: str, kind: int) -> int:
    if kind == NVML_CLOCK_MEM:
        return int(_known(uuid, "memory_mhz"))
    locked = _devices()[uuid]["locked"]
    takes = locked is not None and not _known(uuid, "stuck")
    clock = locked if takes else _known(uuid, "sm_mhz")
    return int(_known(uuid, "base_mhz") if clock == NVML_CLOCK_LIMIT_ID_TDP else clock)


def nvmlDeviceGetMaxClockInfo(uuid: str, kind: int) -> int:
    return int(_known(uuid, "sm_mhz" if kind == NVML_CLOCK_SM else "memory_mhz"))


def nvmlDeviceSetGpuLockedClocks(uuid: str, lowest: int, highest: int) -> None:
    assert lowest == highest
    _set(uuid, locked=lowest, reasons=2)


def nvmlDeviceResetGpuLockedClocks(uuid: str) -> None:
    _set(uuid, locked=None, reasons=0)


def nvmlDeviceSetMemoryLockedClocks(uuid: str, lowest: int, highest: int) -> None:
    _known(uuid, "locks_memory")
    _set(uuid, memory_locked=highest)


def nvmlDeviceResetMemoryLockedClocks(uuid: str) -> None:
    _known(uuid, "locks_memory")
    _set(uuid, memory_locked=None)


ANSWERS: dict[str, Callable[..., Any]] = {
    "nvmlDeviceGetName": lambda uuid: _known(uuid, "name"),
    "nvmlDeviceGetSupportedGraphicsClocks": lambda uuid, memory_mhz: _known(uuid, "supported"),
    "nvmlDeviceGetCudaComputeCapability": lambda uuid: tuple(_known(uuid, "capability")),
    "nvmlDeviceGetApplicationsClock": lambda uuid, kind: _known(uuid, "application")[0],
    "nvmlDeviceGetDefaultApplicationsClock": lambda uuid, kind: _known(uuid, "application")[1],
    "nvmlDeviceGetCurrentClocksEventReasons": lambda uuid: _known(uuid, "reasons"),
    "nvmlDeviceGetPersistenceMode": lambda uuid: _known(uuid, "persistence"),
    "nvmlDeviceGetEccMode": lambda uuid: _known(uuid, "ecc"),
    "nvmlDeviceGetComputeRunningProcesses": lambda uuid: [SimpleNamespace(pid=pid) for pid in _known(uuid, "pids")],
    "nvmlDeviceGetPciInfo": lambda uuid: SimpleNamespace(busId=_known(uuid, "bus")),
    "nvmlDeviceGetPowerUsage": lambda uuid: _known(uuid, "power_mw"),
    "nvmlDeviceGetTemperature": lambda uuid, kind: _known(uuid, "temperature"),
    "nvmlDeviceGetPowerManagementLimit": lambda uuid: 700_000,
    "nvmlDeviceGetMemoryBusWidth": lambda uuid: 6144,
    "nvmlSystemGetDriverVersion": lambda: "580.95.05",
}
globals().update(ANSWERS)
