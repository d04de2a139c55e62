"""Telemetry: what NVML answers fills the columns, and no answer at all is fine."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import nvml_devices
import pytest
import torch
from nvml_devices import Devices, device

from kbench.measure.machine.telemetry import Telemetry, find_telemetry, telemetry_columns


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Devices:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid="0"))
    return nvml_devices.install(monkeypatch, tmp_path)


def telemetry(kind: str) -> Telemetry:
    return find_telemetry(SimpleNamespace(type=kind, torch_device=torch.device(kind)))  # type: ignore[arg-type]


def test_nvml_answers_for_its_devices(devices: Devices) -> None:
    devices.put(GPU_0=device(reasons=0x4 | 0x1, temperature=None))
    reader = telemetry("cuda")
    assert (reader.source, reader.driver) == ("NVML", "580.95.05")
    assert reader.read() == {"sm_mhz": 1980, "power_w": 512.5, "temp_c": None, "throttle": ("power-cap",)}
    assert reader.limits == {"max_sm_mhz": 1980, "max_mem_mhz": 3201, "bus_bits": 6144, "power_limit_w": 700.0}
    assert reader.peak_gbps == pytest.approx(4917, abs=1) and reader.others() == []


def test_a_host_and_an_unknown_device_have_no_telemetry_and_no_columns(devices: Devices) -> None:
    devices.put(GPU_7=device())
    for kind in ("cpu", "cuda"):
        reader = telemetry(kind)
        assert telemetry_columns([reader.read()]) == {}
        assert (reader.source, reader.limits, reader.peak_gbps, reader.others()) == ("", {}, None, None)


def test_a_rows_telemetry_is_the_median_and_every_reason_seen() -> None:
    readings = [
        {"sm_mhz": 1980, "power_w": 300, "temp_c": 50, "throttle": ()},
        {"sm_mhz": 1700, "power_w": 690, "temp_c": 60, "throttle": ("power-cap",)},
        {"sm_mhz": 1980, "power_w": 310, "temp_c": 55, "throttle": ("sw-thermal",)},
    ]
    assert telemetry_columns(readings) == {
        "sm_mhz": 1980,
        "power_w": 310,
        "temp_c": 55,
        "throttle": "power-cap;sw-thermal",
    }


@pytest.mark.gpu
def test_nvml_knows_the_device() -> None:
    from kbench.measure.machine.device import Device

    reader = find_telemetry(Device())
    if not reader.source:
        pytest.skip("no telemetry library answers here")
    reading = reader.read()
    assert reading["sm_mhz"] and reading["power_w"] and reading["temp_c"]
    assert reader.peak_gbps and reader.peak_gbps > 100
    assert reader.energy_counter_mj()
