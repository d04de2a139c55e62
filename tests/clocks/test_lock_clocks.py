"""`kbench run --lock-clocks` and `kbench doctor --unlock`, with a made-up NVML and real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import nvml_devices
import pytest
from common import Kbench
from fake_executor import HOST, FakeMachine
from making import row
from nvml_devices import Devices, device

from kbench.clocks import lock_card, locking
from kbench.clocks.lock_files import lock_folder
from kbench.clocks.locking import locked_clocks, note_moved
from kbench.clocks.unlocking import unlock_lost
from kbench.commands import doctor
from kbench.errors import UsageError
from kbench.protocol import DeviceInfo

CONFIG = """
operator: softmax
sweep: {M: 16, N: [64, 100], dtype: float32}
providers: [torch-native]
"""

TDP = 0xFFFFFF01

CARD = DeviceInfo("cuda", "NVIDIA H200", 0, "GPU-0")

LOCKS = """
import sys, time
from kbench.clocks.locking import locked_clocks
from kbench.protocol import DeviceInfo
with locked_clocks("1500", [DeviceInfo("cuda", "NVIDIA H200", 0, "GPU-0")], lambda line: None):
    print("locked", flush=True)
    {body}
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
def locking_process(body: str = "time.sleep(60)") -> Iterator[subprocess.Popen[str]]:
    """A process that has locked GPU-0."""
    command = [sys.executable, "-c", LOCKS.format(body=body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()


def locked(asked: str, device: DeviceInfo) -> AbstractContextManager[list[lock_card.LockedClock]]:
    return locked_clocks(asked, [device], lambda line: None)


def keeper_pid() -> int:
    [file] = lock_folder().glob("*.json")
    return int(json.loads(file.read_text())["pid"])


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


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `kbench doctor` find a made-up machine with the device GPU-0."""
    made = FakeMachine().catalog()
    monkeypatch.setattr(doctor, "read_catalog", lambda plugins: replace(made, device=CARD))


def lose(devices: Devices) -> None:
    """Leave a lock behind, as when a container ends with all its processes."""
    with locking_process() as process:
        process.send_signal(signal.SIGSTOP)  # so that it cannot notice the loss
        os.kill(keeper_pid(), signal.SIGKILL)
        process.kill()
    assert devices.locked("GPU-0") == 1500


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


def run(kbench: Kbench, fake_machine: FakeMachine, *arguments: str) -> tuple[int, str]:
    """The exit code of `kbench run sweep.yaml` on two made-up cards, and its stderr."""
    fake_machine.cards = 2
    outcome = kbench("run", "sweep.yaml", "--devices", "all", "--no-plot", *arguments)
    return outcome.returncode, outcome.stderr


def environment(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "results" / "sweep.env.json").read_text())
    return found


def test_a_run_locks_each_of_its_devices_and_records_it(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path], devices: Devices, tmp_path: Path
) -> None:
    write_config(CONFIG)
    seen = []
    fake_machine.before = lambda task: seen.append((devices.locked("GPU-0"), devices.locked("GPU-1")))
    code, said = run(kbench, fake_machine, "--lock-clocks")
    assert code == 0, said
    assert seen == [(TDP, TDP)] * 2
    assert devices.locked("GPU-0") is None and devices.locked("GPU-1") is None
    clocks = {"sm_mhz": 1500, "memory_mhz": 3201}
    assert environment(tmp_path)["locked_clocks"] == {"GPU-0": clocks, "GPU-1": clocks}
    again, said = run(kbench, fake_machine, "--append")
    assert again == 0, said
    assert "the clocks are not locked; for the earlier rows they were locked" in said
    assert environment(tmp_path)["continued"][0]["locked_clocks"] == {}  # type: ignore[index]


def test_a_run_that_is_interrupted_unlocks(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path], devices: Devices
) -> None:
    write_config(CONFIG)

    def interrupt(task: object) -> None:
        assert devices.locked("GPU-0") == 1500
        raise KeyboardInterrupt

    fake_machine.before = interrupt
    code, said = run(kbench, fake_machine, "--lock-clocks", "1500")
    assert code == 130, said
    assert devices.locked("GPU-0") is None


def test_a_run_that_may_not_lock_measures_nothing(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path], devices: Devices, tmp_path: Path
) -> None:
    write_config(CONFIG)
    devices.put(GPU_0=device(denied=True), GPU_1=device(denied=True))
    code, said = run(kbench, fake_machine, "--lock-clocks")
    assert code == 2
    assert "error: --lock-clocks: this user may not lock the clocks of NVIDIA H200 (GPU-0)" in said
    assert "sudo nvidia-smi -i GPU-0 --lock-gpu-clocks=tdp,tdp" in said
    assert fake_machine.finished == 0 and not list((tmp_path / "results").glob("*.csv"))


def test_a_host_has_no_clocks_to_lock(
    kbench: Kbench, fake_machine: FakeMachine, write_config: Callable[[str], Path], devices: Devices
) -> None:
    write_config(CONFIG)
    outcome = kbench("run", "sweep.yaml", "--lock-clocks")
    assert outcome.returncode == 2
    assert outcome.stderr.splitlines()[-1].startswith("error: --lock-clocks: there is no NVIDIA device here")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--lock-clocks", "sweep.yaml", "--dry-run"], 0, ""),
        (["--lock-clocks", "1500MHz", "sweep.yaml", "--dry-run"], 0, ""),
        (["sweep.yaml", "--lock-clocks=fast"], 2, "--lock-clocks 'fast' is not a clock; write 1500 for 1500 MHz"),
        (["sweep.yaml", "--lock-clocks", "0"], 2, "--lock-clocks '0' is not a clock"),
        (["--lock-clocks", "-5", "sweep.yaml"], 2, "--lock-clocks '-5' is not a clock"),
        (["sweep.yaml", "--lock-clocks", "1.5GHz"], 2, "--lock-clocks '1.5GHz' is not a clock"),
        (["sweep.yaml", "--lock-clocks", "--scheduler", "tcp://a:1"], 2, "cannot be combined with --scheduler"),
        (
            ["--repeat", "a.csv", "--row", "N=1", "--lock-clocks"],
            2,
            "--repeat takes all settings from the results file",
        ),
    ],
)
def test_the_clock_is_optional(
    kbench: Kbench,
    fake_machine: FakeMachine,
    write_config: Callable[[str], Path],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    write_config(CONFIG)
    outcome = kbench("run", *arguments)
    assert outcome.returncode == code, outcome.stderr
    assert says in outcome.stderr
