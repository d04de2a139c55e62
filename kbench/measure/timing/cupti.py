"""The CUPTI timer: the time that the kernels of a call take on the device, as NVIDIA's profiling library CUPTI reports it.

It makes the calls that the timer do_bench makes, with the same flush and the same spin before each. But it does not read
events: it reads when the first kernel, copy or fill of a call began and when the last one ended. So the time has neither
launch overhead nor the cost of events, and it includes the gaps between the kernels of a call.

CUPTI stays active once a profiler has run, and it lengthens some kernels. So no profiler starts before a provider is made ready
for this timer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

import torch

from kbench.contract.provider import Unsupported
from kbench.measure.machine.device import Device
from kbench.measure.timing.device_activities import LostActivities, call_times, record_activities
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import DeviceSamples, Sample

MARKS_MS = 0.1
"""What launching the two marks may cost the host, beside the launch of the call. The spin covers it."""

_ATTEMPTS = 3
"""How often a round is measured if the profiler loses something. Its first buffers may be incomplete."""


@dataclass(frozen=True)
class CuptiTimer(BenchTimer):
    """Reads device times of the calls of do_bench. `cache` is `cold` (flushed before every call) or `warm`."""

    name = "cupti"

    def ready(
        self, runs: Sequence[Callable[[], Any]], launch_ms: float | None, before: Callable[[], None] | None = None
    ) -> Sample:
        """See Timer. Raises Unsupported where the profiler cannot be used."""
        if reason := _missing(self.device):
            raise Unsupported(f"`timer: cupti` {reason}; use `timer: do_bench`")
        return partial(self._read, runs[0], (launch_ms or 0.0) + MARKS_MS, before)

    def empty(self) -> Sample:
        """An empty kernel. Nothing is added to the time of a kernel, but no kernel has a shorter one."""
        return self.ready([self.device.empty_call], None)

    def _read(
        self,
        call: Callable[[], Any],
        launch_ms: float,
        before: Callable[[], None] | None,
        warmup_ms: float,
        rep_ms: float,
    ) -> DeviceSamples:
        """Raises Unsupported if the profiler has lost something each time. No part of a reading is used then."""
        fault = ""
        for _ in range(_ATTEMPTS):
            try:
                return self._read_once(call, launch_ms, before, warmup_ms, rep_ms)
            except LostActivities as lost:
                fault = str(lost)
        raise Unsupported(f"`timer: cupti` got incomplete data from the profiler: {fault}; use `timer: do_bench`")

    def _read_once(
        self,
        call: Callable[[], Any],
        launch_ms: float,
        before: Callable[[], None] | None,
        warmup_ms: float,
        rep_ms: float,
    ) -> DeviceSamples:
        from kbench.measure.machine import noop

        calls, timed = 0, 0

        def marked() -> None:
            nonlocal calls
            calls += 1
            noop.mark_begin()
            call()
            noop.mark_end()

        def work() -> None:
            nonlocal timed
            timed = len(self._samples(marked, launch_ms, before, warmup_ms, rep_ms))

        activities = record_activities(work)
        times = call_times(activities, noop.BEGIN_MARK, noop.END_MARK, calls=calls, timed=timed)
        return DeviceSamples((time.span_ms for time in times), (time.span_ms - time.busy_ms for time in times))


@cache
def _missing(device: Device) -> str:
    """Why the kernels of this device cannot be timed, after "timer cupti"; empty if they can. Starts the profiler once."""
    if device.type != "cuda" or torch.version.hip:
        kind = "an AMD device" if device.type == "cuda" else device.type
        return f"needs an NVIDIA device; this machine has {kind}"
    if not find_spec("triton"):
        return "needs Triton, which is not installed"
    from kbench.measure.machine import noop

    def work() -> None:
        noop.mark_begin()
        device.empty_call()
        noop.mark_end()

    fault = ""
    for _ in range(_ATTEMPTS):
        try:
            call_times(record_activities(work), noop.BEGIN_MARK, noop.END_MARK, calls=1, timed=1)
            return ""
        except LostActivities as lost:
            fault = str(lost)
    return f"cannot use torch's profiler ({fault}); another profiler may be attached to this process"
