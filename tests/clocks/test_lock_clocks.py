"""Locked clocks are free again however the process that locked them ends, and no device is locked halfway. NVML is made up, and
the processes are real."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from clock_locks import CARD, TDP, keeper_pid, locked, locking_process, lose, soon
from fake_executor import HOST
from making import row
from nvml_devices import Devices, device

from kbench.clocks import lock_card, locking
from kbench.clocks.lock_files import lock_folder
from kbench.clocks.locking import locked_clocks, note_moved
from kbench.errors import UsageError


def test_the_clocks_are_locked_inside_and_free_afterwards(devices: Devices) -> None:
    notes: list[str] = []
    with locked_clocks("1500", [CARD], notes.append) as clocks:
        assert devices.locked("GPU-0") == 1500 and devices["GPU-0"]["memory_locked"] == 3201
        assert [(clock.sm_mhz, clock.memory_mhz) for clock in clocks] == [(1500, 3201)]
    assert devices.locked("GPU-0") is None and devices["GPU-0"]["memory_locked"] is None
    assert notes == ["clocks of NVIDIA H200 (GPU-0) locked at 1500 MHz, memory at 3201 MHz"]
    assert not list(lock_folder().iterdir())


def test_the_base_clock_is_read_from_the_device(devices: Devices) -> None:
    devices.put(GPU_0=device(locks_memory=None))
    with locked("base", CARD) as clocks:
        assert devices.locked("GPU-0") == TDP
        assert [(clock.sm_mhz, clock.memory_mhz) for clock in clocks] == [(1500, None)]
    assert devices.locked("GPU-0") is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_lock_ends_with_the_process_however_that_ends(devices: Devices, number: signal.Signals) -> None:
    survivor = (
        "import subprocess; subprocess.Popen(['sleep', '10'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
    )
    with locking_process(survivor + "time.sleep(60)") as process:
        assert devices.locked("GPU-0") == 1500
        process.send_signal(number)
        process.wait(20)
        assert soon(lambda: devices.locked("GPU-0") is None)
        assert soon(lambda: not list(lock_folder().iterdir()))


def test_signals_to_the_whole_group_do_not_end_the_process_that_unlocks(devices: Devices) -> None:
    with locking_process() as process:
        os.kill(keeper_pid(), signal.SIGTERM)  # as a queueing system signals every process of a job
        os.kill(keeper_pid(), signal.SIGINT)
        time.sleep(0.1)
        assert devices.locked("GPU-0") == 1500
        process.kill()
        assert soon(lambda: devices.locked("GPU-0") is None)


def test_a_run_unlocks_itself_when_the_process_that_unlocks_is_lost(devices: Devices) -> None:
    with locked("1500", CARD):
        os.kill(keeper_pid(), signal.SIGKILL)
    assert devices.locked("GPU-0") is None
    assert not list(lock_folder().iterdir())


def test_a_run_takes_over_the_lock_of_a_lost_process(devices: Devices) -> None:
    lose(devices)
    with locked("1515", CARD):
        assert devices.locked("GPU-0") == 1515
    assert devices.locked("GPU-0") is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "asked", "says"),
    [
        (device(denied=True), "1500", "only root has the right. Lock them before the run with: sudo nvidia-smi -i GPU-1"),
        (device(denied=True), "base", "--lock-gpu-clocks=tdp,tdp"),
        (device(), "1490", "has no clock of 1490 MHz; the nearest are 1485 and 1500"),
        (device(), "9999", "has no clock of 9999 MHz; the nearest is 1980"),
        (device(stuck=True), "1500", "at 1500 MHz, but the clock did not settle there within 2 s (last reading: 1980 MHz)"),
        (device(reasons=2, sm_mhz=1200), "1500", "the clock of NVIDIA H200 (GPU-1) is limited already, probably by a lock"),
    ],
)  # fmt: skip
def test_a_device_that_does_not_take_the_lock_ends_the_run(
    devices: Devices, other: dict[str, object], asked: str, says: str
) -> None:
    devices.put(GPU_0=device(supported=None), GPU_1=other)
    both = [CARD, replace(CARD, index=1, uuid="GPU-1")]
    notes: list[str] = []
    with pytest.raises(UsageError) as refused, locked_clocks(asked, both, notes.append):
        pytest.fail("the body must not run")
    assert says in str(refused.value)
    assert devices.locked("GPU-0") is None and devices.locked("GPU-1") is None
    assert not list(lock_folder().glob("*.json")) and not notes


@pytest.mark.slow
def test_a_device_that_a_run_has_locked_is_refused(devices: Devices) -> None:
    with (
        locking_process(),
        pytest.raises(UsageError, match=r"are locked by process \d+ since .* try again"),
        locked_clocks("1500", [CARD], lambda line: None),
    ):
        pytest.fail("the body must not run")
    with locked("1500", CARD):
        pass


def test_without_nvml_or_a_device_one_sentence_says_so(devices: Devices, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = replace(CARD, uuid="GPU-9")
    with (
        pytest.raises(UsageError, match=r"NVML cannot lock the clocks of GPU-9 \(Not Found\)"),
        locked_clocks("base", [unknown], lambda line: None),
    ):
        pytest.fail("the body must not run")
    with (
        pytest.raises(UsageError, match="there is no NVIDIA device here"),
        locked_clocks("base", [HOST], lambda line: None),
    ):
        pytest.fail("the body must not run")
    monkeypatch.setattr(locking, "KEEPER", ["false"])
    with pytest.raises(UsageError, match="did not answer"), locked("base", CARD):
        pytest.fail("the body must not run")


def test_a_folder_that_cannot_be_written_is_named(devices: Devices, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with (
        pytest.raises(UsageError, match="Choose another folder with XDG_STATE_HOME"),
        locked_clocks("base", [CARD], lambda line: None),
    ):
        pytest.fail("the body must not run")
    assert devices.locked("GPU-0") is None


def test_without_a_home_folder_lock_files_are_temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert lock_folder() == tmp_path / "kbench" / "clocks"


def test_rows_at_another_clock_are_counted(devices: Devices) -> None:
    clock = lock_card.LockedClock("GPU-0", "NVIDIA H200", 1500, None)
    notes: list[str] = []
    rows = [row(sm_mhz=sm_mhz, device_uuid="GPU-0") for sm_mhz in (1500.0, 1495.0, 1200.0, None)]
    note_moved([clock], rows, notes.append)
    assert len(notes) == 1 and notes[0].startswith(
        "1 of 3 rows on NVIDIA H200 (GPU-0) ran at 1200 MHz and not at the locked 1500 MHz"
    )
    note_moved([clock], rows[:2], notes.append)
    assert len(notes) == 1
