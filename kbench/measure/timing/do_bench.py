"""The do_bench timer: `triton.testing.do_bench`, run with kbench's own driver around the active one.

On its own, do_bench reports up to seven times the true time of a short kernel: when a launch takes the host longer than the
flush takes, the device waits between the two events. So kbench queues a spin kernel after each flush, which keeps the device
busy until the host is ahead. A host, and a device without Triton, are timed by a loop of the same form with the host's clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from kbench.measure.machine.device import Device
from kbench.measure.timing.timer import Before, Run, Sample, Samples, Timer

PREFILL_MS = 0.1
"""The device spins at least this long before a timed launch: several times as long as an ordinary launch takes. With half of
this, the readings of two rows of 25 rose by 0.7 and 1.1 % on an H200."""

MAX_PREFILL_MS = 10.0

FLUSHES = 5
"""Flushes of which the shortest says how long a flush keeps the device busy."""

HOST_EMPTY_MS = 1.0
"""How long to time an empty call on a host, per round. It takes a tenth of a microsecond there, so this gives more than a
thousand samples. A flush before each takes milliseconds, so with a cold cache the time is not shortened."""


FLUSH_BYTES = 64 * 1024**2
"""Bytes written between timed calls on a device that does not report the size of its last-level cache."""

HOST_FLUSH_BYTES = 16 * 1024**2
"""A host writes at most so many. This displaces what the caches of one core hold, in a millisecond or two. To displace the
last-level cache of a server takes 0.1 s, so that a round has one sample."""


class BenchTimer(Timer):
    """Times single calls with do_bench. A cold cache is flushed before every call."""

    name = "do_bench"

    @property
    def prefill_ms(self) -> float:
        return MAX_PREFILL_MS if self.device.spin else 0.0

    def ready(self, runs: Sequence[Run], launch_ms: float | None, before: Before = None) -> Sample:
        """See Timer. The device is kept busy for longer than `launch_ms`."""

        def sample(warmup_ms: float, rep_ms: float) -> Samples:
            if not self.device.accelerated or not find_spec("triton"):
                cold = self.cache == "cold"
                return Samples(clock_samples(self.device, runs[0], before, warmup_ms, rep_ms, cold=cold))
            import triton.testing

            with self._driver(launch_ms or 0.0, before):
                return Samples(triton.testing.do_bench(runs[0], warmup=warmup_ms, rep=rep_ms, return_mode="all"))

        return sample

    def empty(self) -> Sample:
        """The overhead of the events. On a host: an empty call. On a device: an empty kernel, minus half of what a second adds.

        Events without a kernel between them would not show the overhead. The kernel itself takes more than nothing and less
        than a second one adds with the gap between the two. Half of it is within half a microsecond of the truth.
        """
        empty = self.device.empty_call

        def two() -> None:
            empty()
            empty()

        sample_one, sample_two = self.ready([empty], None), self.ready([two], None)

        def sample(warmup_ms: float, rep_ms: float) -> Samples:
            if not self.device.accelerated:
                return sample_one(0.0, rep_ms if self.cache == "cold" else HOST_EMPTY_MS)
            once = sample_one(warmup_ms, rep_ms)
            second_ms = median(sample_two(warmup_ms, rep_ms).ms) - median(once.ms)
            return Samples([ms - second_ms / 2 for ms in once.ms])

        return sample

    @contextmanager
    def _driver(self, launch_ms: float, before: Before) -> Iterator[None]:
        """Make kbench's driver the active one of Triton."""
        from triton.runtime import driver

        active = driver.active
        flush_ms = _flush_ms(self.device) if self.cache == "cold" and self.device.spin else 0.0
        driver.set_active(_PrefilledDriver(active, self, spin_ms(launch_ms, flush_ms), before))
        try:
            yield
        finally:
            driver.set_active(active)


def spin_ms(launch_ms: float, flush_ms: float) -> float:
    """How long to spin, if a launch takes `launch_ms` and the flush has taken `flush_ms`."""
    return min(max(PREFILL_MS, 3 * launch_ms - flush_ms), MAX_PREFILL_MS)


@cache
def _flush_ms(device: Device) -> float:
    """How long a flush keeps the device busy."""
    from triton.runtime import driver

    active = driver.active
    buffer, event = active.get_empty_cache_for_benchmark(), active.get_device_interface().Event
    events = [event(enable_timing=True) for _ in range(FLUSHES + 1)]
    active.clear_cache(buffer)
    for flush in events:
        flush.record()
        active.clear_cache(buffer)
    device.synchronize()
    return float(min(start.elapsed_time(end) for start, end in pairwise(events)))


class _PrefilledDriver:
    """The active Triton driver. Its flush also prepares a timed call, and puts the host ahead."""

    def __init__(self, inner: Any, timer: BenchTimer, spin_ms: float, before: Before) -> None:
        self._inner, self._cold, self._spin_ms = inner, timer.cache == "cold", spin_ms
        self._before = before
        self._spin, self._drop_kept_lines = timer.device.spin, timer.device.drop_kept_lines

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def clear_cache(self, cache: Any) -> None:
        if self._before:
            self._before()  # first: the flush displaces from the cache what this writes
        if self._cold:
            self._drop_kept_lines()  # a flush does not displace what kernels asked the cache to keep
            self._inner.clear_cache(cache)
        if self._spin:
            self._spin(self._spin_ms)


def flush_bytes(device: Device) -> int:
    """How many bytes are written to displace what the caches hold."""
    byte_count = 2 * device.cache_bytes if device.cache_bytes else FLUSH_BYTES
    return byte_count if device.accelerated else min(byte_count, HOST_FLUSH_BYTES)


def clock_samples(
    device: Device, call: Run, before: Before, warmup_ms: float, rep_ms: float, *, cold: bool
) -> list[float]:
    """The protocol of do_bench with the clock of the host, in ms per call: warm up, then prepare, flush the cache and time
    single calls. The device is idle when the clock starts and when it stops."""
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
