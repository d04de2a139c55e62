"""Locked clocks are free again however the process that locked them ends, and no device is locked halfway. NVML and nvidia-smi
are made up, and the processes are real."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import nvml_devices
import psutil
import pytest
from making import row
from nvml_devices import Devices, device

from kbench.clocks import LockedClock, locked_clocks, note_moved
from kbench.errors import UsageError
from kbench.protocol import DeviceInfo

CARD = DeviceInfo("cuda", "NVIDIA H200", 0, "GPU-0")

LOCKS = """
import subprocess, time
from kbench.clocks import locked_clocks
from kbench.protocol import DeviceInfo
with locked_clocks("1500", [DeviceInfo("cuda", "NVIDIA H200", 0, "GPU-0")]):
    subprocess.Popen(["sleep", "10"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # outlives the run
    print("locked", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Devices:
    made = nvml_devices.install(monkeypatch, tmp_path)
    made.put(GPU_0=device(), GPU_1=device())
    return made


def soon(holds: Callable[[], bool]) -> bool:
    """Whether this holds within 20 s."""
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@contextmanager
def locking_process() -> Iterator[subprocess.Popen[str]]:
    """A process that has locked GPU-0."""
    with subprocess.Popen([sys.executable, "-c", LOCKS], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()


def test_the_clocks_are_locked_inside_and_free_afterwards(devices: Devices, notes: list[str]) -> None:
    with locked_clocks("1500", [CARD]) as clocks:
        assert devices.locked("GPU-0") == 1500 and devices["GPU-0"]["memory_locked"] == 3201
        assert [(clock.sm_mhz, clock.memory_mhz) for clock in clocks] == [(1500, 3201)]
    assert devices.locked("GPU-0") is None and devices["GPU-0"]["memory_locked"] is None
    assert notes == ["clocks of NVIDIA H200 (GPU-0) locked at 1500 MHz, memory at 3201 MHz"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_ends_with_the_process_however_that_ends(devices: Devices, number: signal.Signals) -> None:
    with locking_process() as process:
        assert devices.locked("GPU-0") == 1500
        process.send_signal(number)
        process.wait(20)
        assert soon(lambda: devices.locked("GPU-0") is None)


def test_signals_to_all_processes_of_a_job_do_not_end_the_one_that_unlocks(devices: Devices) -> None:
    with locking_process() as process:
        [shell] = [child for child in psutil.Process(process.pid).children() if child.name() == "sh"]
        for each in (shell, *shell.children()):
            each.send_signal(signal.SIGTERM)
            each.send_signal(signal.SIGINT)
        time.sleep(0.1)
        assert devices.locked("GPU-0") == 1500
        process.kill()
        assert soon(lambda: devices.locked("GPU-0") is None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "asked", "says"),
    [
        (device(denied=True), "1500", "only root has the right. Lock them before the run with: sudo nvidia-smi -i GPU-1"),
        (device(stuck=True), "1500", "at 1500 MHz, but the clock did not settle there within 2 s (last reading: 1980 MHz)"),
        (device(reasons=2, sm_mhz=1200), "1500", "the clock of NVIDIA H200 (GPU-1) is limited already, probably by a lock"),
    ],
)  # fmt: skip
def test_a_device_that_does_not_take_the_lock_ends_the_run(
    devices: Devices, notes: list[str], other: dict[str, object], asked: str, says: str
) -> None:
    devices.put(GPU_0=device(supported=None), GPU_1=other)
    with (
        pytest.raises(UsageError) as refused,
        locked_clocks(asked, [CARD, replace(CARD, index=1, uuid="GPU-1")]),
    ):
        pytest.fail("the body must not run")
    assert says in str(refused.value)
    assert devices.locked("GPU-0") is None and devices.locked("GPU-1") is None
    assert not notes


def test_rows_at_another_clock_are_counted(notes: list[str]) -> None:
    clock = LockedClock("GPU-0", "NVIDIA H200", 1500, None)
    rows = [row(sm_mhz=sm_mhz, device_uuid="GPU-0") for sm_mhz in (1500.0, 1495.0, 1200.0, None)]
    note_moved([clock], rows)
    assert len(notes) == 1 and notes[0].startswith(
        "1 of 3 rows on NVIDIA H200 (GPU-0) ran at 1200 MHz and not at the locked 1500 MHz"
    )
    note_moved([clock], rows[:2])
    assert len(notes) == 1
