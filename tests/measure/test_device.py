"""Which devices a process sees, and what makes another process see one of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.measure.machine.device import VISIBLE, Device, devices
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.graph import GraphTimer


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make torch see so many cards. Their UUIDs begin with their numbers."""

    def see(count: int, visible: str | None = None) -> list[dict[str, Any]]:
        module = SimpleNamespace(
            device_count=lambda: count,
            get_device_name=lambda number: "A card",
            get_device_properties=lambda number: SimpleNamespace(uuid=f"{number}-a"),
        )
        monkeypatch.setattr(torch, "get_device_module", lambda kind: module)
        monkeypatch.setitem(VISIBLE, "cuda", "SOME_VISIBLE")
        if visible is not None:
            monkeypatch.setenv("SOME_VISIBLE", visible)
        return devices("cuda")

    return see


@pytest.mark.parametrize(
    ("visible", "numbers", "handles"),
    [
        (None, [0, 1], ["0", "1"]),
        ("4, 6", [4, 6], ["4", "6"]),
        ("GPU-0-a,GPU-1-a", [0, 1], ["GPU-0-a", "GPU-1-a"]),
    ],
)
def test_another_process_sees_one_of_the_devices_that_this_one_sees(
    cards: Any, visible: str | None, numbers: list[int], handles: list[str]
) -> None:
    found = cards(2, visible)
    assert [device.index for device in found] == numbers
    assert [device.uuid for device in found] == ["GPU-0-a", "GPU-1-a"]
    assert [device.variables for device in found] == [{"SOME_VISIBLE": handle} for handle in handles]
    (instance,) = cards(1, "MIG-7")
    assert instance.uuid == "MIG-7" and instance.variables == {"SOME_VISIBLE": "MIG-7"}


@pytest.mark.gpu
@pytest.mark.parametrize("timer", [BenchTimer, GraphTimer])
@pytest.mark.parametrize("cache", ["cold", "warm"])
def test_what_kernels_asked_the_cache_to_keep_is_let_go_before_every_cold_sample(timer: Any, cache: str) -> None:
    device, calls = Device(), 0
    forget = device.drop_kept_lines

    def counted() -> None:
        nonlocal calls
        forget()
        calls += 1

    device.__dict__["drop_kept_lines"] = counted
    x = torch.zeros(1024, device=device.torch_device)
    samples = timer(device, cache).ready([lambda: x + 1] * 2, 0.05)(1, 1)
    assert calls >= len(samples.ms) if cache == "cold" else calls == 0


class Cycle:
    """Refers to itself, as an autograd graph and a function that it calls do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.gpu
def test_tensors_that_refer_to_themselves_are_freed_on_a_device() -> None:
    device = Device()
    total = torch.cuda.get_device_properties(device.torch_device).total_memory
    before = torch.cuda.memory_allocated()
    left = Cycle()
    left.tensor = torch.empty(total // 20, dtype=torch.uint8, device=device.torch_device)  # type: ignore[attr-defined]
    del left
    device.release_case()
    assert torch.cuda.memory_allocated() <= before
