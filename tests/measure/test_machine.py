"""The machine: which devices a process sees, what NVML answers, when its clock has settled, other load, and lost memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nvml_devices
import pytest
import torch
from nvml_devices import Devices
from nvml_devices import device as card

from kbench.measure.machine import other_load, telemetry
from kbench.measure.machine.device import VISIBLE, Device, devices, out_of_memory
from kbench.measure.machine.telemetry import Telemetry, find_telemetry, telemetry_columns

# -- devices


@pytest.mark.parametrize(
    ("visible", "numbers", "handles"),
    [
        ("", [0, 1], ["0", "1"]),
        ("4, 6", [4, 6], ["4", "6"]),
        ("GPU-0-a,GPU-1-a", [0, 1], ["GPU-0-a", "GPU-1-a"]),
        ("MIG-7", [0], ["MIG-7"]),
    ],
)
def test_another_process_sees_one_of_the_devices_that_this_one_sees(
    monkeypatch: pytest.MonkeyPatch, visible: str, numbers: list[int], handles: list[str]
) -> None:
    module = SimpleNamespace(
        device_count=lambda: len(numbers),
        get_device_name=lambda number: "A card",
        get_device_properties=lambda number: SimpleNamespace(uuid=f"{number}-a"),
    )
    monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
    monkeypatch.setitem(VISIBLE, "cuda", "SOME_VISIBLE")
    monkeypatch.setenv("SOME_VISIBLE", visible)
    seen = devices("cuda")
    assert [device.index for device in seen] == numbers
    assert [device.uuid for device in seen] == (["MIG-7"] if visible == "MIG-7" else ["GPU-0-a", "GPU-1-a"])
    assert [device.variables for device in seen] == [{"SOME_VISIBLE": handle} for handle in handles]


class Cycle:
    """Refers to itself, as an autograd graph and a function that it calls do."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.itself, self.tensor = self, tensor


@pytest.mark.gpu
def test_tensors_that_refer_to_themselves_are_freed_on_a_device() -> None:
    device = Device()
    total = torch.cuda.get_device_properties(device.torch_device).total_memory
    before = torch.cuda.memory_allocated()
    Cycle(torch.empty(total // 20, dtype=torch.uint8, device=device.torch_device))
    device.release_case()
    assert torch.cuda.memory_allocated() <= before


# -- memory that has run out


@pytest.mark.parametrize(
    ("error", "out"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes"),
            True,
        ),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("out of resource: shared memory, Required: 264192, Hardware limit: 232448"), False),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_an_exception_that_reports_too_little_memory(error: BaseException, out: bool) -> None:
    assert out_of_memory(error) is out


def test_memory_that_is_too_large_to_be_poisoned_is_left_as_it_is() -> None:
    Device().poison((2**50,), torch.float32)


# -- telemetry


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Devices:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: SimpleNamespace(uuid="0"))
    return nvml_devices.install(monkeypatch, tmp_path)


def telemetry_of(kind: str) -> Telemetry:
    return find_telemetry(SimpleNamespace(type=kind, torch_device=torch.device(kind)))  # type: ignore[arg-type]


def test_nvml_answers_for_its_devices(cards: Devices) -> None:
    cards.put(GPU_0=card(reasons=0x4 | 0x1, temperature=None))
    reader = telemetry_of("cuda")
    assert (reader.source, reader.driver) == ("NVML", "580.95.05")
    assert reader.read() == {"sm_mhz": 1980, "power_w": 512.5, "temp_c": None, "throttle": ("power-cap",)}
    assert reader.limits == {"max_sm_mhz": 1980, "max_mem_mhz": 3201, "bus_bits": 6144, "power_limit_w": 700.0}
    assert reader.peak_gbps == pytest.approx(4917, abs=1) and reader.others() == []


def test_a_rows_telemetry_is_the_median_and_every_reason_seen() -> None:
    readings = [
        {"sm_mhz": 1980, "power_w": 300, "temp_c": 50, "throttle": ()},
        {"sm_mhz": 1700, "power_w": 690, "temp_c": 60, "throttle": ("power-cap",)},
        {"sm_mhz": 1980, "power_w": 310, "temp_c": 55, "throttle": ("sw-thermal",)},
    ]
    columns = {"sm_mhz": 1980, "power_w": 310, "temp_c": 55, "throttle": "power-cap;sw-thermal"}
    assert telemetry_columns(readings) == columns


@pytest.mark.gpu
def test_nvml_knows_the_device() -> None:
    reader = find_telemetry(Device())
    if not reader.source:
        pytest.skip("no telemetry library answers here")
    reading = reader.read()
    assert reading["sm_mhz"] and reading["power_w"] and reading["temp_c"]
    assert reader.peak_gbps and reader.peak_gbps > 100


# -- the clock


@pytest.mark.parametrize(
    ("readings_mhz", "waits"),
    [
        ((345, 1200, 1980, 1980, 1980), [4]),  # it rises
        ((1980, 1980, 1980, 1975, 1980), [2, 0, 0]),  # it stays where it settled
        ((1980, 1980, 1980, 1500, 1980, 1980, 1980), [2, 3]),  # it has changed since
        ((None,), [0]),  # the device does not tell it
    ],
)
def test_a_clock_is_waited_for_until_it_has_settled(readings_mhz: tuple[float | None, ...], waits: list[int]) -> None:
    left, work_s = list(readings_mhz), list[float]()
    reader: Any = Telemetry()
    reader.read = lambda: {"sm_mhz": left.pop(0)}
    for count in waits:
        work_s.clear()
        reader.settle(work_s.append)
        assert work_s == [telemetry.WINDOW_S] * count


@pytest.mark.parametrize(
    ("seconds", "busy_s", "own_s", "cores"),
    [
        (2.0, 3.0, 1.0, 1.0),
        (2.0, 1.0, 1.1, 0.0),
        (2.0, 0.0, 1.0, None),  # a sandbox counts nothing
        (0.1, 1.0, 0.0, None),  # a few ticks only
    ],
)
def test_other_load_is_what_kept_cores_busy_besides_this_process(
    monkeypatch: pytest.MonkeyPatch, seconds: float, busy_s: float, own_s: float, cores: float | None
) -> None:
    monkeypatch.setattr(other_load, "_busy_s", iter([5.0, 5.0 + busy_s, 5.0 + busy_s]).__next__)
    monkeypatch.setattr(other_load, "_own_s", iter([1.0, 1.0 + own_s]).__next__)
    monkeypatch.setattr(other_load, "time", SimpleNamespace(monotonic=iter([0.0, seconds]).__next__))
    assert other_load.OtherLoad().cores() == cores
