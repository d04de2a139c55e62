"""Several devices of one host. The test machine has none: several_devices.py makes the host look like three."""

from __future__ import annotations

import json
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from common import PLUGINS, Kbench
from fake_executor import machine_info
from stand_in import SETTINGS
from warm_processes import POSSIBLE, PREPARE

from kbench.errors import Busy, DeviceGone, ExecutionError, UsageError
from kbench.execute import progress
from kbench.execute.executor import Finished
from kbench.execute.executors.devices import Devices, TaskQueue, choose_devices
from kbench.execute.lock import acquire_lock, device_key
from kbench.execute.plan import Task
from kbench.execute.supervision.fit import Misfit
from kbench.execute.worker.starting import PluginFiles
from kbench.protocol import Catalog, DeviceInfo
from kbench.results.case import Case

SWEEP = f"""
operator: softmax
sweep: {{M: 16, N: [64, 100, 128, 160], dtype: float32}}
providers: [torch-native]
plugins: [{PLUGINS / "several.py"}]
measure: {{warmup_ms: 1, rep_ms: 2, rounds: 1, sessions: 2}}
"""


def card(index: int, uuid: str) -> DeviceInfo:
    return DeviceInfo("cuda", "A card", index, uuid, {"CUDA_VISIBLE_DEVICES": str(index)})


CARDS = [card(0, "GPU-a0"), card(2, "GPU-a2"), card(3, "GPU-b3")]


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [("all", [0, 2, 3]), ("2", [2]), ("3, 0", [3, 0]), ("GPU-a2,3", [2, 3]), ("gpu-b", [3]), ("0,0,GPU-a0", [0])],
)
def test_devices_are_named_by_number_or_uuid(wanted: str, indices: list[int]) -> None:
    assert [device.index for device in choose_devices(wanted, CARDS)] == indices


@pytest.mark.parametrize("wanted", ["1", "GPU-c", "", "0,,2", "GPU-a", "every", "-1"])
def test_refuses_a_device_that_is_not_there(wanted: str) -> None:
    with pytest.raises(UsageError, match=r"choose from 0 \(GPU-a0\), 2 \(GPU-a2\), 3 \(GPU-b3\)"):
        choose_devices(wanted, CARDS)


def test_a_mig_instance_is_passed_through(monkeypatch: pytest.MonkeyPatch) -> None:
    (device,) = choose_devices("MIG-5f", CARDS)
    assert (device.index, device.uuid, device.variables) == (
        None,
        "MIG-5f",
        {"CUDA_VISIBLE_DEVICES": "MIG-5f"},
    )


def test_runs_on_different_devices_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = (device_key(device) for device in CARDS[:2])
    with (
        acquire_lock(first, "0", wait=False, note=print),
        acquire_lock(second, "2", wait=False, note=print),
        pytest.raises(Busy),
        acquire_lock(first, "0", wait=False, note=print),
    ):
        pass


def tasks(*cases: tuple[int, int]) -> list[Task]:
    return [Task(Case("softmax", {"N": n}, "float32"), (), None, SETTINGS, session) for n, session in cases]


def test_the_sessions_of_a_case_wait_for_their_device() -> None:
    first, second, again, more = tasks((1, 0), (2, 0), (1, 1), (2, 1))
    queue = TaskQueue()
    queue.fill([first, second, again, more], {})
    assert (queue.take("a"), queue.take("b")) == (first, second)
    queue.done()
    assert queue.take("b") == more
    taken: list[Task | None] = []
    waits = threading.Thread(target=lambda: taken.append(queue.take("b")))
    waits.start()
    time.sleep(0.05)
    assert not taken, "what is left is of device a, which has not given it up"
    assert queue.give_back(first, "a") == 1
    waits.join()
    assert taken == [first]
    assert queue.take("b") == again
    queue.fill([first, again], {first.case.key: "a"})
    assert queue.take("a") == first
    queue.fill([first, again], None)
    assert (queue.take("a"), queue.take("b")) == (first, again)


def test_a_case_that_every_device_is_lost_under_is_given_up() -> None:
    (task,) = tasks((1, 0))
    queue = TaskQueue()
    queue.fill([task], {})
    assert [queue.take("a"), queue.give_back(task, "a")] == [task, 1]
    assert [queue.take("b"), queue.give_back(task, "b")] == [task, 2]
    assert queue.take("c") is None


def test_a_closed_queue_has_nothing_for_anybody() -> None:
    """A device may finish or lose its task after the queue is closed."""
    first, second = tasks((1, 0), (2, 0))
    queue = TaskQueue()
    queue.fill([first, second], {})
    assert (queue.take("a"), queue.take("b")) == (first, second)
    queue.close()
    queue.done()
    queue.give_back(second, "b")
    assert queue.take("c") is None


class Stub:
    """Replaces WorkerSupervisor. The devices in `broken` are lost at once."""

    broken: ClassVar[set[int]] = set()

    def __init__(self, plugins: Any, note: Any, *, device: Any = None, place: str = "") -> None:
        self.device = device

    def __enter__(self) -> Stub:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Catalog:
        return Catalog(CARDS[0], tuple(CARDS), {}, (), machine_info())

    def stop(self) -> None:
        pass

    def measure(self, task: Task, listener: Any) -> Finished:
        if self.device.index in self.broken:
            raise DeviceGone("it fell off the bus")
        return Finished(task, [], self.device, machine_info())


def measured(monkeypatch: pytest.MonkeyPatch, broken: set[int], todo: list[Task]) -> list[Finished]:
    monkeypatch.setattr("kbench.execute.executors.devices.WorkerSupervisor", Stub)
    monkeypatch.setattr(Stub, "broken", broken)
    executor = Devices(PluginFiles(()), print, "all", spread=False)
    executor.start()
    found = []
    with progress.PlainProgress(len(todo)) as display, closing(executor.run(todo, {}, display)) as results:
        for finished in results:
            found.append(finished)
    executor.stop()
    return found


def test_every_task_comes_back_once_whatever_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    todo = tasks(*((n, session) for session in range(2) for n in range(20)))
    found = measured(monkeypatch, {2, 3}, todo)
    assert sorted(map(id, (finished.task for finished in found))) == sorted(map(id, todo))
    assert len([finished for finished in found if finished.device.index == 0]) >= 39


def test_a_case_that_two_devices_are_lost_under_is_given_up_and_the_notes_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(self: Stub, task: Task, listener: Any) -> Finished:
        if task is todo[0]:
            raise DeviceGone("it fell off the bus")
        time.sleep(0.01)  # so that the last device is still busy when the second is lost
        return Finished(task, [], self.device, machine_info())

    todo = tasks(*((n, 0) for n in range(60)))
    monkeypatch.setattr(Stub, "measure", measure)
    assert len(measured(monkeypatch, set(), todo)) == 60
    moved, given_up = [line for line in capsys.readouterr().err.splitlines() if "was lost" in line]
    assert "its case moves to another device" in moved
    assert "its case is given up, because 2 devices were lost while they measured it" in given_up


def test_a_run_ends_with_its_last_device(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExecutionError, match=r"device \d was lost: it fell off the bus; no device is left .*--resume"):
        measured(monkeypatch, {0, 2, 3}, tasks(*((n, 0) for n in range(20))))


def test_code_that_changed_during_the_run_is_no_lost_device_and_no_row_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(self: Stub, task: Task, listener: Any) -> Finished:
        raise Misfit("the hash of the code of provider triton", "3fa1", "9c2e")

    monkeypatch.setattr(Stub, "measure", measure)
    told = (
        r"^device \d stopped measuring: the code of provider triton has changed since the run began; undo the change and "
        "continue with --resume, or start a new run$"
    )
    with pytest.raises(ExecutionError, match=told):
        measured(monkeypatch, set(), tasks((0, 0)))
    notes = capsys.readouterr().err
    assert notes.count("its case moves to another device") == len(CARDS) - 1 and "lost" not in notes


# -- through the command line


@pytest.fixture
def three_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    if not POSSIBLE:
        pytest.skip("only warm workers can be prepared")
    monkeypatch.setenv(PREPARE, "several_devices")


@pytest.mark.slow
def test_cases_go_to_several_devices_and_move_from_a_lost_one(
    kbench: Kbench, three_devices: None, write_config, tmp_path: Path
) -> None:
    path = write_config(SWEEP.replace("[torch-native]", "[torch-native, together, breaks-device-1]"))
    done = kbench("run", path, "--devices", "2,1,GPU-00", "--no-plot")
    assert done.returncode == 0, done.stderr
    assert "device 1 was lost: no worker can be started: " in done.stderr and "its case moves" in done.stderr
    assert "[8/8] softmax M=16 N=" in done.stderr and " on device " in done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv", keep_default_na=False, dtype={"env_id": str})
    assert set(zip(rows.device_index, rows.device_uuid, strict=True)) == {(0, "GPU-0000"), (2, "GPU-2222")}
    assert not rows.duplicated(["N", "provider", "session"]).any() and len(rows) == 4 * 2 * 6
    assert (rows.groupby("N").device_uuid.nunique() == 1).all(), "both sessions of a case on one device"
    environment = json.loads((tmp_path / "results" / "sweep.env.json").read_text())
    assert set(rows.env_id) == {environment["env_id"]}, "two cards of a kind are one environment"
    assert environment["scope"] == "host"


@pytest.mark.slow
def test_dry_run_says_which_case_goes_where(kbench: Kbench, three_devices: None, write_config) -> None:
    done = kbench("run", write_config(SWEEP), "--devices", "all", "--dry-run")
    assert done.returncode == 0, done.stderr
    table = [line.split()[-2:] for line in done.stdout.splitlines() if line.startswith("16 ")]
    assert table == [["device", "0"], ["device", "1"], ["device", "2"], ["device", "0"]]
    assert "2 sessions on 3 devices: about" in done.stdout
