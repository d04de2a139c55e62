"""Several devices of one host. The test machine has none: several_devices.py makes the host look like three."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from common import PLUGINS, Kbench
from fake_executor import machine_info
from stand_in import SETTINGS
from warm_processes import POSSIBLE, PREPARE

from kbench.errors import DeviceGone, ExecutionError, UsageError
from kbench.execute import progress
from kbench.execute.devices import Devices, TaskQueue, choose_devices
from kbench.execute.executor import Finished
from kbench.protocol import Catalog, CatalogRequest, DeviceInfo, Task
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


def tasks(*cases: tuple[int, int]) -> list[Task]:
    return [Task(Case("softmax", {"N": n}, "float32"), (), None, SETTINGS, session) for n, session in cases]


def test_a_case_belongs_to_the_device_that_began_it() -> None:
    first, second, again, more = todo = tasks((1, 0), (2, 0), (1, 1), (2, 1))
    queue = TaskQueue(todo, {})
    assert [queue.take(device) for device in "abbba"] == [first, second, more, None, again]
    assert TaskQueue(todo, {first.case: "b"}).take("a") == second
    spread = TaskQueue(todo, None)
    assert [spread.take("a") for _ in range(5)] == [first, second, again, more, None]


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
        time.sleep(0.02)  # so that each device gets a case
        return Finished(task, [], self.device, machine_info())


Measured = Callable[..., Iterator[Finished]]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Measures tasks on three stand-ins, of which some are `broken`."""
    monkeypatch.setattr("kbench.execute.devices.WorkerSupervisor", Stub)

    def measured(todo: list[Task], broken: set[int]) -> Iterator[Finished]:
        monkeypatch.setattr(Stub, "broken", broken)
        executor = Devices(CatalogRequest(()), print, "all", spread=False)
        executor.start()
        return executor.run(todo, {}, progress.PlainProgress(len(todo)))

    return measured


def test_every_case_is_measured_once_except_those_of_lost_devices(
    measured: Measured, capsys: pytest.CaptureFixture[str]
) -> None:
    todo = tasks(*((n, 0) for n in range(20)))
    finished: list[Finished] = []
    with pytest.raises(ExecutionError, match=r"^2 of 20 cases .* device \d was lost: it fell off the bus; .*--resume"):
        for task_done in measured(todo, {2, 3}):
            finished.append(task_done)
    assert len(finished) == len({task_done.task.case.N for task_done in finished}) == 18
    notes = capsys.readouterr().err
    assert "device 2 was lost: it fell off the bus; it gets no more cases" in notes and "device 3 was lost" in notes


# -- through the command line


@pytest.fixture
def three_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    if not POSSIBLE:
        pytest.skip("only warm workers can be prepared")
    monkeypatch.setenv(PREPARE, "several_devices")


@pytest.mark.slow
def test_cases_go_to_several_devices_and_resume_measures_those_of_a_lost_one(
    kbench: Kbench, three_devices: None, write_config, tmp_path: Path
) -> None:
    path = write_config(SWEEP.replace("[torch-native]", "[torch-native, together, breaks-device-1]"))
    lost = kbench("run", path, "--devices", "2,1,GPU-00", "--no-plot")
    assert lost.returncode == 3 and "2 of 8 cases are not measured, because device 1 was lost: " in lost.stderr
    done = kbench("run", path, "--devices", "2,0", "--no-plot", "--resume")
    assert done.returncode == 0, done.stderr
    assert "softmax M=16 N=" in lost.stderr and " on device " in lost.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv", keep_default_na=False, dtype={"env_id": str})
    assert set(zip(rows.device_index, rows.device_uuid, strict=True)) == {(0, "GPU-0000"), (2, "GPU-2222")}
    assert not rows.duplicated(["N", "provider", "session"]).any() and len(rows) == 4 * 2 * 6
    assert (rows.groupby("N").device_uuid.nunique() == 1).all(), "both sessions of a case on one device"
    environment = json.loads((tmp_path / "results" / "sweep.env.json").read_text())
    assert set(rows.env_id) == {environment["env_id"]}, "two cards of a kind are one environment"
    assert environment["scope"] == "host"
