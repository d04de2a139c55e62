"""What a timer offers, how one is made by its name, and what the launch of a call costs, and the stages around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from kbench.measure.machine.device import Device
from kbench.results.timers import TIMERS

LAUNCHES = 10
"""Calls of which the median is the cost of a launch."""

REPEATS = 5
"""How often each stage is timed."""

Run = Callable[[], Any]
"""Makes one call."""

Before = Callable[[], None] | None
"""Prepares the inputs for a timed call or a replay of all calls, outside of the timed window and before the flush."""


class Samples(NamedTuple):
    """The samples of a round, in ms per call, at least one.

    gaps_ms  the part of each sample in which no kernel, copy or fill ran; none if the timer does not see single kernels
    """

    ms: list[float]
    gaps_ms: Sequence[float] = ()


Sample = Callable[[float, float], Samples]
"""Measures one round of a provider: runs it untimed for the first number of ms, and then timed for the second."""


@dataclass(frozen=True)
class Timer:
    """Times all contenders of a case on one device. `cache` is `cold` or `warm`, and `name` the entry in the `timer` column.

    A class for each timer stands in a file of this folder, and is listed in kbench/results/timers.py.
    """

    device: Device
    cache: str

    name: ClassVar[str]

    @property
    def prefill_ms(self) -> float:
        """The longest that this timer can keep the device busy before a timed launch; 0.0 if it cannot."""
        return 0.0

    def sets(self, call_bytes: int) -> int:
        """How many sets of buffers a case needs; one call touches `call_bytes` bytes."""
        return 1

    def cold(self, call_bytes: int) -> bool:
        """Whether a call that touches this many bytes finds none of them in the last-level cache."""
        return self.cache == "cold"

    def preparing(self) -> AbstractContextManager[object]:
        """The context in which calls for this timer are prepared."""
        return nullcontext()

    def ready(self, runs: Sequence[Run], launch_ms: float | None, before: Before = None) -> Sample:
        """Prepare to time a provider. `runs` make the same call, each on a set of buffers of its own. `launch_ms` is what one
        launch costs the host, None if unknown. Raises Unsupported, with the reason, for a call that this timer cannot time."""
        raise NotImplementedError

    def empty(self) -> Sample:
        """The same for no work at all: what the timer adds to a time. By default, of an empty kernel."""
        return self.ready([self.device.empty_call], None)


def make_timer(name: str, device: Device, cache: str) -> Timer:
    """The timer that a config calls `name`. `cache` is `cold` or `warm`."""
    module, _, attribute = TIMERS[name].implementation.partition(":")
    timer: Timer = getattr(import_module(module), attribute)(device, cache)
    return timer


def measure_launch_ms(fn: Callable[[], Any], device: Device) -> float | None:
    """What one call costs the host while the device is idle: the median of ten. None on the host."""
    if not device.accelerated:
        return None
    times = []
    for _ in range(LAUNCHES):
        device.synchronize()
        start = time.perf_counter_ns()
        fn()
        times.append((time.perf_counter_ns() - start) / 1e6)
    device.synchronize()
    return sorted(times)[LAUNCHES // 2]


def measure_stages(device: Device, inputs: Sequence[Tensor]) -> dict[str, float]:
    """The stages in ms, medians of five.

    alloc_ms        allocates the inputs and an output of the first one's size, from the driver and not from torch's cache
    h2d_ms, d2h_ms  copies the inputs to the device, and one of them back, with ordinary (pageable) host memory

    The times are wall times between two synchronisations, as a program without streams would see them. Empty on a host.
    """
    if not device.accelerated:
        return {}
    host = [x.cpu() for x in inputs]
    pairs = list(zip(inputs, host, strict=True))
    return {
        "alloc_ms": _wall_ms(device, lambda: [torch.empty_like(x) for x in (*inputs, inputs[0])], device.release),
        "h2d_ms": _wall_ms(device, lambda: [x.copy_(source) for x, source in pairs]),
        "d2h_ms": _wall_ms(device, lambda: host[0].copy_(inputs[0])),
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
