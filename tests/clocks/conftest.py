"""Fixtures of the tests of locked clocks."""

from __future__ import annotations

from pathlib import Path

import nvml_devices
import pytest
from nvml_devices import Devices, device


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Devices:
    made = nvml_devices.install(monkeypatch, tmp_path)
    made.put(GPU_0=device(), GPU_1=device())
    return made
