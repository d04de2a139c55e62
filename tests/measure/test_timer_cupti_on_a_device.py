"""The CUPTI timer on a device: what it counts as part of a call. A spin kernel stands for work whose length is known."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

import pytest
import torch
from in_process import measured, said

import kbench
from kbench.contract.provider import Unsupported
from kbench.measure.machine.device import Device
from kbench.measure.timing.cupti import CuptiTimer

pytestmark = pytest.mark.gpu

WORK_MS = 1.0
ABOUT = pytest.approx(WORK_MS, rel=0.5)
"""The clock may have changed since the spin kernel was calibrated. What must not count is several times as long."""


@pytest.fixture(scope="module")
def device() -> Device:
    found = Device()
    if found.type != "cuda" or torch.version.hip:
        pytest.skip("needs an NVIDIA device")
    return found


def work(device: Device) -> None:
    assert device.spin
    device.spin(WORK_MS)


def read_ms(device: Device, call: Callable[[], Any], before: Callable[[], None] | None = None) -> float:
    return median(CuptiTimer(device, "cold").ready([call], 0.1, before)(1, 20).ms)


def test_the_spin_of_a_call_counts_and_those_of_kbench_do_not(device: Device) -> None:
    assert read_ms(device, lambda: work(device), before=lambda: device.spin(5.0) if device.spin else None) == ABOUT


def test_copies_fills_and_other_streams_count(device: Device) -> None:
    side, x, host = torch.cuda.Stream(), torch.empty(1 << 20, device="cuda"), torch.empty(1 << 20).pin_memory()

    def call() -> None:
        x.zero_()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work(device)
        torch.cuda.current_stream().wait_stream(side)
        host.copy_(x, non_blocking=True)

    assert read_ms(device, call) == ABOUT


def test_a_call_that_launches_nothing_has_no_time(device: Device) -> None:
    with pytest.raises(Unsupported, match="it shows no kernel, copy or fill in any call"):
        read_ms(device, lambda: None)


def test_a_call_that_launches_something_else_each_time_has_no_time(device: Device) -> None:
    x, number = torch.zeros(16, device="cuda"), count()

    def call() -> None:
        for _ in range(1 + next(number) % 2):
            x.add_(1)

    with pytest.raises(Unsupported, match=r"it shows 1 device operations .* in one call and 2 in another"):
        read_ms(device, call)


@pytest.mark.parametrize(
    ("provider", "mode"), [("torch-native", "forward"), ("triton", "forward"), ("torch-native", "backward")]
)
def test_providers_are_timed_with_it(device: Device, provider: str, mode: str) -> None:
    """Autograd launches the kernels of a backward pass on another thread of the host."""
    rows = measured(kbench.operator("softmax"), [provider], timer="cupti", cache="cold", M=1024, N=1024, mode=mode)
    assert (said(rows[provider]), rows[provider].timer) == ("ok", "cupti") and rows[provider].ms
