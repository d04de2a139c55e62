"""The timer: `triton.testing.do_bench`, run with kbench's own driver around the active one.

Left alone, do_bench reads a short kernel as up to seven times slower than it is: when the host needs longer to launch
than the cache flush takes, the device waits between the two events and Python is what gets timed. So after each flush a
spin kernel keeps the device busy until the host is well ahead. On a machine with no accelerator the same do_bench runs
over a driver whose events read a monotonic clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any, Protocol

import torch

from kbench.measure.machine.device import Device

PREFILL_MS = 0.1
"""The least time the device is kept busy before a timed launch: several times what an ordinary launch takes."""

MAX_PREFILL_MS = 10.0

HOST_FLUSH_BYTES = 64 * 1024**2
"""Written between timed calls on the host where the size of its last-level cache is not known."""


class Timer(Protocol):
    """Times the entries of a case, all with the same one. See BenchTimer and graph.GraphTimer."""

    @property
    def name(self) -> str:
        """What the `timer` column says."""

    @property
    def prefill_ms(self) -> float:
        """The longest that the device can be kept busy before a timed launch; 0.0 where it is not."""

    def sets(self, call_bytes: int) -> int:
        """How many sets of buffers a case needs whose call touches so many bytes."""

    def cold(self, call_bytes: int) -> bool:
        """Whether a call that touches so many bytes finds none of them in the last-level cache."""

    def ready(
        self, fn: Callable[..., Any], buffers: Sequence[tuple[Any, ...]], launch_ms: float | None
    ) -> Callable[[], list[float]]:
        """Prepare to time `fn` over the buffers; the result takes one round's samples, in ms per call."""

    def empty(self) -> Callable[[], list[float]]:
        """Likewise for no work at all: what the timer adds to the time of a call."""


@dataclass(frozen=True)
class BenchTimer:
    """do_bench for single calls on one device. `cache` is `cold` (flushed before every call) or `warm`."""

    device: Device
    cache: str
    warmup_ms: float
    rep_ms: float

    @property
    def name(self) -> str:
        """`do_bench`, or `clock` where triton is not installed and a plain loop of the same shape times the host."""
        return "do_bench" if find_spec("triton") else "clock"

    @property
    def prefill_ms(self) -> float:
        return MAX_PREFILL_MS if self.device.spin else 0.0

    def sets(self, call_bytes: int) -> int:
        return 1  # the cache is flushed, so that one set of buffers is enough

    def cold(self, call_bytes: int) -> bool:
        return self.cache == "cold"

    def ready(
        self, fn: Callable[..., Any], buffers: Sequence[tuple[Any, ...]], launch_ms: float | None
    ) -> Callable[[], list[float]]:
        """`launch_ms` is what one launch costs the host; the pre-fill covers it. See Timer."""
        inputs = buffers[0]
        return lambda: self._samples(lambda: fn(*inputs), launch_ms)

    def empty(self) -> Callable[[], list[float]]:
        """On a device, what events read of an empty kernel, less half of what they read more of two. Without a kernel
        they would not read what they add to one. Its own time is more than nothing and less than what a second one
        adds, since there is a gap before that: the middle is off by less than half a microsecond."""
        empty = self.device.empty_call

        def two() -> None:
            empty()
            empty()

        def samples() -> list[float]:
            once = self._samples(empty, None)
            second_ms = median(self._samples(two, None)) - median(once)
            return [ms - second_ms / 2 for ms in once]

        return samples if self.device.accelerated else lambda: self._samples(empty, None)

    def _samples(self, call: Callable[[], Any], launch_ms: float | None) -> list[float]:
        if self.name == "clock":
            return _clock_samples(call, _HostDriver(self), self.warmup_ms, self.rep_ms)
        import triton.testing

        with self._driver(launch_ms or 0.0):
            times: list[float] = triton.testing.do_bench(
                call, warmup=self.warmup_ms, rep=self.rep_ms, return_mode="all"
            )
        return times

    @contextmanager
    def _driver(self, launch_ms: float) -> Iterator[None]:
        from triton.runtime import driver

        if not self.device.accelerated:
            # No default driver exists here, so there is nothing to go back to: interpreted kernels never ask for one.
            driver.set_active(_HostDriver(self))
            yield
            return
        inner = driver.active
        driver.set_active(_PrefilledDriver(inner, self, min(max(PREFILL_MS, 3 * launch_ms), MAX_PREFILL_MS)))
        try:
            yield
        finally:
            driver.set_active(inner)


class _PrefilledDriver:
    """The active Triton driver, whose cache flush also puts the host ahead of the device."""

    def __init__(self, inner: Any, timer: BenchTimer, prefill_ms: float) -> None:
        self._inner, self._cold, self._prefill_ms = inner, timer.cache == "cold", prefill_ms
        self._spin, self._forget = timer.device.spin, timer.device.forget

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def clear_cache(self, cache: Any) -> None:
        if self._cold:
            self._forget()  # what kernels asked the cache to keep is not displaced by a flush
            self._inner.clear_cache(cache)
        if self._spin:
            self._spin(self._prefill_ms)


class _ClockEvent:
    """A device event for the host: remembers when it was recorded."""

    def __init__(self, enable_timing: bool = True) -> None:
        self._ns = 0

    def record(self) -> None:
        self._ns = time.perf_counter_ns()

    def elapsed_time(self, end: _ClockEvent) -> float:
        return max(end._ns - self._ns, 1) * 1e-6


class _HostInterface:
    """The part of torch's device interface that do_bench uses, for the host: calls return when their work is done."""

    Event = _ClockEvent

    @staticmethod
    def synchronize() -> None:
        return None


class _HostDriver:
    """The part of a Triton driver that do_bench uses, for the host; and for a device that Triton does not know."""

    def __init__(self, timer: BenchTimer) -> None:
        self._cold, self._device = timer.cache == "cold", timer.device
        self._bytes = 2 * (timer.device.cache_bytes or HOST_FLUSH_BYTES // 2)
        self.synchronize = timer.device.synchronize

    def get_device_interface(self) -> type[_HostInterface]:
        return _HostInterface

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(self._bytes, dtype=torch.uint8, device=self._device.torch_device)

    def clear_cache(self, cache: torch.Tensor) -> None:
        if self._cold:
            cache.zero_()


def _clock_samples(fn: Callable[[], Any], driver: _HostDriver, warmup_ms: float, rep_ms: float) -> list[float]:
    """do_bench's protocol on the host's clock for machines without triton: warm up, then flush and time single calls, each
    from an idle device to an idle device."""
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
            times.append(max(time.perf_counter_ns() - start, 1) * 1e-6)
        return times

    calls(warmup_ms)
    return calls(rep_ms)


def measure_launch_ms(fn: Callable[[], Any], device: Device) -> float | None:
    """What one call costs the host when the device is idle, in ms: the median of ten. None on the host itself, where
    launching and running are the same thing."""
    if not device.accelerated:
        return None
    times = []
    for _ in range(10):
        device.synchronize()
        start = time.perf_counter_ns()
        fn()
        times.append((time.perf_counter_ns() - start) * 1e-6)
    device.synchronize()
    return sorted(times)[5]
