"""`kbench doctor` and its option --unlock: the clocks that lost processes and other programs left locked."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from clock_locks import CARD, locked, locking_process, lose
from common import Kbench
from fake_executor import FakeMachine
from nvml_devices import Devices, device

from kbench.clocks.lock_files import lock_folder
from kbench.clocks.unlocking import unlock_lost
from kbench.commands import doctor
from kbench.errors import UsageError


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `kbench doctor` find a made-up machine with the device GPU-0."""
    made = FakeMachine().catalog()
    monkeypatch.setattr(doctor, "read_catalog", lambda plugins: replace(made, device=CARD))


def test_doctor_unlocks_what_lost_processes_left(kbench: Kbench, devices: Devices, no_worker: None) -> None:
    lose(devices)
    first = kbench("doctor", "--unlock")
    assert first.returncode == 0, first.stderr
    assert "unlocked the clocks of NVIDIA H200 (GPU-0), which process" in first.stdout
    assert devices.locked("GPU-0") is None
    assert kbench("doctor", "--unlock").stdout == "there are no locked clocks to unlock\n"


def test_the_lock_of_another_program_is_undone_only_on_demand(
    kbench: Kbench, devices: Devices, no_worker: None
) -> None:
    devices.put(GPU_0=device(locked=1200, reasons=2))
    assert "The clock is limited to 1200 MHz, probably by a lock of another program" in kbench("doctor").stdout
    assert devices.locked("GPU-0") == 1200
    outcome = kbench("doctor", "--unlock")
    assert outcome.stdout == "unlocked the clocks of NVIDIA H200 (GPU-0), which another program had locked\n"
    assert devices.locked("GPU-0") is None


def test_a_lock_that_a_run_holds_is_left_alone(kbench: Kbench, devices: Devices, no_worker: None) -> None:
    assert "The clock is not locked" in kbench("doctor").stdout
    with locking_process():
        shown = kbench("doctor").stdout
        assert "The clock is not locked" not in shown and "limits the clock" not in shown
        said = kbench("doctor", "--unlock").stdout
        assert "has locked the clocks of GPU-0 for a run of kbench, and unlocks them at its end" in said
        assert devices.locked("GPU-0") == 1500


def test_doctor_names_a_lock_that_was_left(kbench: Kbench, devices: Devices, no_worker: None) -> None:
    lose(devices)
    assert "A kbench run was killed and left the clocks locked, since 20" in kbench("doctor").stdout


def test_unlocking_without_the_right_names_the_command(kbench: Kbench, devices: Devices, no_worker: None) -> None:
    lose(devices)
    devices.put(GPU_0=device(locked=1500, denied=True))
    outcome = kbench("doctor", "--unlock")
    assert outcome.returncode == 2
    assert "Only root has the right" in outcome.stderr
    assert "sudo nvidia-smi -i GPU-0 --reset-gpu-clocks" in outcome.stderr
    assert len(list(lock_folder().iterdir())) == 1


@pytest.mark.parametrize(
    "text", ["", "null", "[]", '{"pid": "x"}', '{"pid": 3, "uuid": "../GPU-0", "asked": "", "since": ""}']
)
def test_a_damaged_lock_file_is_named(kbench: Kbench, devices: Devices, no_worker: None, text: str) -> None:
    lock_folder().mkdir(parents=True)
    path = lock_folder() / "GPU-0.json"
    path.write_text(text)
    outcome = kbench("doctor", "--unlock")
    said = " ".join(outcome.stderr.split())
    assert outcome.returncode == 2 and f"{path} is damaged, or is no lock file of kbench." in said
    assert "sudo nvidia-smi -i GPU-0 --reset-gpu-clocks" in said and path.exists()
    assert unlock_lost(["GPU-1"]) == ([], [])
    with locked("1500", CARD):
        assert devices.locked("GPU-0") == 1500, "it does not keep a run from locking"
    assert unlock_lost() == ([], [])


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir])
def test_what_is_no_lock_file_is_refused(devices: Devices, make: Callable[[Path], None]) -> None:
    lock_folder().mkdir(parents=True)
    make(lock_folder() / "GPU-0.json")
    assert len(unlock_lost().failures) == 1
    with pytest.raises(UsageError, match=r"clocks.*: .*; kbench uses this folder to record"), locked("base", CARD):
        pytest.fail("the body must not run")
    assert devices.locked("GPU-0") is None
