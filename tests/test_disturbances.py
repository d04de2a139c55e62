"""What `kbench doctor` says of what distorts timings. The files of the system and NVML are made up."""

from __future__ import annotations

import os
from pathlib import Path

import nvml_devices
import pytest
from nvml_devices import device

from kbench import disturbances
from kbench.disturbances import device_disturbances, host_disturbances, profiler_disturbances
from kbench.nvml import Card, CardError


@pytest.mark.parametrize(
    ("quota", "says"),
    [("200000 100000", ["kbench may use 2 of 64 cores."]), ("max 100000", []), (None, [])],
)
def test_a_quota_of_the_container_counts(
    quota: str | None, says: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disturbances, "SYSFS", tmp_path)
    monkeypatch.setattr(disturbances, "QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    if quota:
        (tmp_path / "cpu.max").write_text(f"{quota}\n")
    assert [disturbance.what for disturbance in host_disturbances()] == says


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without a profiler."""
    for name in [*disturbances.VARIABLES, "LD_PRELOAD", "LD_AUDIT"]:
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.startswith(disturbances.PROFILERS)]:
        monkeypatch.delenv(name)
    return monkeypatch


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("CUDA_INJECTION64_PATH", "/opt/libprof.so", "The variable CUDA_INJECTION64_PATH is set: /opt/libprof.so."),
        ("NSYS_PROFILING_SESSION_ID", "17", "Variables of a profiler are set: NSYS_PROFILING_SESSION_ID."),
        ("LD_PRELOAD", "/opt/libjemalloc.so", "A library is preloaded: LD_PRELOAD is /opt/libjemalloc.so."),
    ],
)
def test_a_variable_that_installs_a_profiler(clean: pytest.MonkeyPatch, name: str, value: str, says: str) -> None:
    assert list(profiler_disturbances()) == []
    clean.setenv(name, value)
    [found] = profiler_disturbances()
    assert found.what == says and found.command == f"unset {name}"


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> nvml_devices.Devices:
    return nvml_devices.install(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("different", "says", "command"),
    [
        ({"pids": [12, 34]}, "2 other processes compute on this device: 12, 34.", "--query-compute-apps"),
        ({"persistence": 0}, "Persistence mode is off.", "sudo nvidia-smi -i GPU-0 --persistence-mode=1"),
        ({"ecc": [0, 0]}, "ECC is off.", "sudo nvidia-smi -i GPU-0 --ecc-config=1"),
        (
            {"application": [1095, 1980]},
            "The application clock is 1095 MHz; the default is",
            "--reset-applications-clocks",
        ),
        ({"locked": 1200, "reasons": 2}, "limited to 1200 MHz", "--reset-gpu-clocks"),
    ],
)
def test_settings_of_the_device(
    devices: nvml_devices.Devices, different: dict[str, object], says: str, command: str
) -> None:
    devices.put(GPU_0=device(**different))
    found = [each for each in device_disturbances(Card("GPU-0")) if "is not locked" not in each.what]
    assert [says in each.what for each in found] == [True]
    assert command in found[0].command


@pytest.mark.gpu
def test_nvml_answers_the_questions_of_doctor() -> None:
    """Reads only: it changes no setting of the device."""
    from kbench.measure.machine.device import Device

    try:
        card = Card(Device().info.uuid)
    except CardError as error:
        pytest.skip(f"no NVML here: {error}")
    assert 0 < (card.sm_mhz() or 0) <= (card.max_sm_mhz() or 0)
    assert card.max_sm_mhz() in card.supported_sm_mhz()
    assert all(each.what.endswith(".") and each.command for each in device_disturbances(card))
