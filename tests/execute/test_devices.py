"""Several devices of one host: which are chosen, who gets a case, and what a lost one costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from stand_in import SETTINGS, StandIn, task

from kbench.errors import ExecutionError, UsageError
from kbench.execute.devices import Devices, TaskQueue, choose_devices
from kbench.execute.executor import Finished
from kbench.execute.progress import PlainProgress
from kbench.protocol import CatalogRequest, DeviceInfo, Task
from kbench.results.case import Case


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


# -- with stand-ins for workers

CARD = "{'type': 'cpu', 'name': 'A card', 'index': number, 'uuid': f'GPU-{number}', 'variables': {'SEEN': str(number)}}"
START = f"""
CATALOG["devices"] = [{CARD} for number in range(3)]
seen = os.environ.get("SEEN")
if seen:
    CATALOG["device"] = CATALOG["devices"][int(seen)]
if seen == "1" and os.path.exists(DEAD):
    os._exit(9)
"""
MEASURE = """
if CATALOG["device"]["index"] == 1:
    open(DEAD, "w").close()
    os._exit(9)
while not os.path.exists(DEAD):
    time.sleep(0.01)
say("Rows", rows=rows())
"""


def test_a_lost_device_gets_no_more_cases_and_the_others_measure_theirs(stand_in: StandIn, tmp_path: Path) -> None:
    dead = repr(str(tmp_path / "dead"))
    stand_in(MEASURE.replace("DEAD", dead), START.replace("DEAD", dead))
    todo = [replace(task("mine"), case=each.case) for each in tasks((1, 0), (2, 0), (3, 0), (4, 0), (5, 0))]
    measured = list[Finished]()
    executor = Devices(CatalogRequest(()), "2,1,GPU-0", spread=False)
    try:
        with pytest.raises(ExecutionError, match=r"1 of 5 cases are not measured, because device 1 was lost: "):
            for finished in executor.run(todo, {}, PlainProgress(1)):
                measured.append(finished)
    finally:
        executor.stop()
    assert len(measured) == 4 and "GPU-1" not in {finished.device.uuid for finished in measured}
