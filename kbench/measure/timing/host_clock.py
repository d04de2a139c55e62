"""do_bench on the clock of the host: a driver for it, and the same loop where Triton is not installed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from kbench.measure.machine.device import Device

FLUSH_BYTES = 64 * 1024**2
"""Bytes written between timed calls on a device that does not report the size of its last-level cache."""

HOST_FLUSH_BYTES = 16 * 1024**2
"""A host writes at most so many. This displaces what the caches of one core hold, in a millisecond or two. To displace the
last-level cache of a server takes 0.1 s, so that a round has one sample."""


class ClockEvent:
    """A device event for the host: remembers when it was recorded."""

    def __init__(self, enable_timing: bool = True) -> None:
        self._ns = 0

    def record(self) -> None:
        self._ns = time.perf_counter_ns()

    def elapsed_time(self, end: ClockEvent) -> float:
        return max(end._ns - self._ns, 1) / 1e6


class HostInterface:
    """The part of torch's device interface that do_bench uses, for the host: a call returns when its work is done."""

    Event = ClockEvent

    @staticmethod
    def synchronize() -> None:
        return None


class HostDriver:
    """The part of a Triton driver that do_bench uses, for the host and for a device without Triton."""

    def __init__(self, device: Device, cache: str, before: Callable[[], None] | None = None) -> None:
        self._cold, self._device, self._before = cache == "cold", device, before
        wanted = 2 * device.cache_bytes if device.cache_bytes else FLUSH_BYTES
        self._bytes = wanted if device.accelerated else min(wanted, HOST_FLUSH_BYTES)
        self.synchronize = device.synchronize

    def get_device_interface(self) -> type[HostInterface]:
        return HostInterface

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(self._bytes, dtype=torch.uint8, device=self._device.torch_device)

    def clear_cache(self, cache: torch.Tensor) -> None:
        if self._before:
            self._before()
        if self._cold:
            cache.zero_()


def clock_samples(fn: Callable[[], Any], driver: HostDriver, warmup_ms: float, rep_ms: float) -> list[float]:
    """do_bench's protocol without Triton, in ms per call: warm up, then flush the cache and time single calls. The device is
    idle when the clock starts and when it stops."""
    cache = driver.get_empty_cache_for_benchmark()

    def calls(budget_ms: float) -> list[float]:
        times: list[float] = []
        end = time.perf_counter() + budget_ms * 1e-3
        while not times or time.perf_counter() < end:
            driver.clear_cache(cache)
            driver.synchronize()
            start = time.perf_counter_ns()
            fn()
            driver.synchronize()
            times.append(max(time.perf_counter_ns() - start, 1) / 1e6)
        return times

    calls(warmup_ms)
    return calls(rep_ms)
