"""Times calls with the clock of the host: those of a host, and on a device without Triton, whose work is waited for."""

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


def flush_bytes(device: Device) -> int:
    """How many bytes are written to displace what the caches hold."""
    byte_count = 2 * device.cache_bytes if device.cache_bytes else FLUSH_BYTES
    return byte_count if device.accelerated else min(byte_count, HOST_FLUSH_BYTES)


def clock_samples(
    device: Device,
    call: Callable[[], Any],
    before: Callable[[], None] | None,
    warmup_ms: float,
    rep_ms: float,
    *,
    cold: bool,
) -> list[float]:
    """The protocol of do_bench, in ms per call: warm up, then prepare, flush the cache and time single calls. The device is
    idle when the clock starts and when it stops."""
    cache = torch.empty(flush_bytes(device) if cold else 0, dtype=torch.uint8, device=device.torch_device)
    wait = device.synchronize if device.accelerated else lambda: None

    def samples(budget_ms: float) -> list[float]:
        times: list[float] = []
        end = time.perf_counter() + budget_ms * 1e-3
        while not times or time.perf_counter() < end:
            if before:
                before()
            if cold:
                cache.zero_()
            wait()
            start = time.perf_counter_ns()
            call()
            wait()
            times.append(max(time.perf_counter_ns() - start, 1) / 1e6)
        return times

    samples(warmup_ms)
    return samples(rep_ms)
