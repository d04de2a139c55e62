"""NVIDIA devices that are made up, for this process and its children: see fake_nvml/pynvml.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "fake_nvml"


def device(**different: Any) -> dict[str, Any]:
    """An H200 that nobody uses and about which there is nothing to warn of, except that its clocks are not locked.

    locked        the clock that was asked for, or None
    sm_mhz        its clock while it is not locked, and its highest one
    stuck         it accepts a lock, and its clock stays as it is
    denied        this user may not change anything
    locks_memory  whether the clock of the memory can be locked: True, or None
    """
    usual = {
        "name": "NVIDIA H200", "sm_mhz": 1980, "base_mhz": 1500, "memory_mhz": 3201, "supported": [1485, 1500, 1515, 1980],
        "locked": None, "memory_locked": None, "locks_memory": True, "stuck": False, "denied": False, "capability": [9, 0],
        "application": [1980, 1980], "reasons": 0, "persistence": 1, "ecc": [1, 1], "pids": [], "bus": "00000000:1A:00.0",
        "power_mw": 512500, "temperature": 61,
    }  # fmt: skip
    assert different.keys() <= usual.keys()
    return usual | different


class Devices:
    """The devices of a file, by UUID."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, **by_uuid: dict[str, Any]) -> None:
        """Replace all devices. A name stands for a UUID: `GPU_0` for `GPU-0`."""
        self.path.write_text(json.dumps({name.replace("_", "-"): one for name, one in by_uuid.items()}))

    def __getitem__(self, uuid: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())[uuid]
        return found

    def locked(self, uuid: str) -> object:
        return self[uuid]["locked"]


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Devices:
    """Put made-up devices in the place of NVML and of nvidia-smi."""
    for variable in ("PATH", "PYTHONPATH"):
        monkeypatch.setenv(variable, os.pathsep.join(filter(None, [str(FOLDER), os.environ.get(variable)])))
    monkeypatch.setenv("FAKE_NVML", str(folder / "devices.json"))
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    return Devices(folder / "devices.json")
