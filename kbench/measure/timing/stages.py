"""The stages around a kernel: allocation, copy to the device, copy to the host."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor

from kbench.measure.machine.device import Device

REPEATS = 5


def measure_stages(device: Device, inputs: Sequence[Tensor]) -> dict[str, float]:
    """The stages in ms, medians of five.

    alloc_ms        allocates the inputs and an output of the first one's size, from the driver and not from torch's cache
    h2d_ms, d2h_ms  copies the inputs to the device, and one of them back, with ordinary (pageable) host memory

    The times are wall times of the host between two synchronisations, as a program without streams would see them. Empty
    without an accelerator.
    """
    if not device.accelerated:
        return {}
    host = [x.cpu() for x in inputs]

    def allocate() -> None:
        blocks = [torch.empty_like(x) for x in (*inputs, inputs[0])]
        del blocks

    def upload() -> None:
        for x, source in zip(inputs, host, strict=True):
            x.copy_(source)

    def download() -> None:
        host[0].copy_(inputs[0])

    return {
        "alloc_ms": _wall_ms(device, allocate, before=device.release),
        "h2d_ms": _wall_ms(device, upload),
        "d2h_ms": _wall_ms(device, download),
    }


def _wall_ms(device: Device, action: Callable[[], Any], before: Callable[[], None] = lambda: None) -> float:
    times = []
    for _ in range(REPEATS):
        before()
        device.synchronize()
        start = time.perf_counter_ns()
        action()
        device.synchronize()
        times.append((time.perf_counter_ns() - start) / 1e6)
    return median(times)
