"""Several devices of one host. The test machine has none: several_devices.py makes the host look like three."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from common import PLUGINS, Kbench
from stand_in import SETTINGS
from warm_processes import POSSIBLE, PREPARE

from kbench.errors import UsageError
from kbench.execute.devices import TaskQueue, choose_devices
from kbench.protocol import DeviceInfo, Task
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
