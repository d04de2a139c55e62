"""The CUPTI timer: the time that the kernels of a call take on the device, as NVIDIA's profiling library CUPTI reports it.

It makes the calls that the timer do_bench makes, with the same flush and the same spin before each, and reads when the first
kernel, copy or fill of a call began and the last one ended. So the time has no launch overhead, but the gaps between kernels.

CUPTI, which torch.profiler reads, numbers the calls of CUDA's functions. Each kernel, copy and fill carries the number of the
call that launched it. So the timer launches a mark, an empty kernel, before and after each call, and what was launched
between the two belongs to the call.

CUPTI stays active once a profiler has run, and it lengthens some kernels. So none starts before this timer is made ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

import torch

from kbench.contract.provider import Unsupported
from kbench.measure.machine.device import Device
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import Before, Run, Sample, Samples, Timer
from kbench.text.exception_text import message

MARKS_MS = 0.1
"""What launching the two marks may cost the host, beside the launch of the call. The spin covers it."""

ATTEMPTS = 3
"""How often a round is measured if the profiler loses something. Its first buffers may be incomplete."""


class LostActivities(Exception):
    """The profiler has lost something, so there is no time. Carries the reason."""


class Activity(NamedTuple):
    """A kernel, a copy or a fill. `launch` is the number of the call that launched it."""

    name: str
    start_ns: int
    end_ns: int
    launch: int


class CuptiTimer(BenchTimer):
    """Reads device times of the calls of do_bench."""

    name = "cupti"

    def ready(self, runs: Sequence[Run], launch_ms: float | None, before: Before = None) -> Sample:
        """See Timer. Raises Unsupported where the profiler cannot be used, and a round does if the profiler has lost something
        each time. No part of a reading is used then."""
        if reason := _missing(self.device):
            raise Unsupported(f"`timer: cupti` {reason}; use `timer: do_bench`")
        from kbench.measure.machine import noop

        calls = 0

        def marked() -> None:
            nonlocal calls
            calls += 1
            noop.launch(noop.kbench_call_begins)
            runs[0]()
            noop.launch(noop.kbench_call_ends)

        take = super().ready([marked], (launch_ms or 0.0) + MARKS_MS, before)

        def sample(warmup_ms: float, rep_ms: float) -> Samples:
            nonlocal calls
            for _ in range(ATTEMPTS):
                calls = 0
                try:
                    activities, samples = record_activities(partial(take, warmup_ms, rep_ms))
                    return call_times(activities, noop.BEGIN_MARK, noop.END_MARK, calls=calls, timed=len(samples.ms))
                except LostActivities as error:
                    reason = str(error)
            raise Unsupported(
                f"`timer: cupti` got incomplete data from the profiler: {reason}; another profiler may be attached to this "
                "process; use `timer: do_bench`"
            )

        return sample

    def empty(self) -> Sample:
        """An empty kernel. Nothing is added to the time of a kernel, but no kernel has a shorter one."""
        return Timer.empty(self)


def _missing(device: Device) -> str:
    """Why the kernels of this device cannot be timed, after "timer cupti"; empty if they can."""
    if device.type != "cuda" or torch.version.hip:
        kind = "an AMD device" if device.type == "cuda" else device.type
        return f"needs an NVIDIA device; this machine has {kind}"
    return "" if find_spec("triton") else "needs Triton, which is not installed"


T = TypeVar("T")


def record_activities(work: Callable[[], T]) -> tuple[list[Activity], T]:
    """Do some work. Returns what the device did, and what the work returned. Raises LostActivities."""
    with _faults_of_the_profiler():
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        profile.start()
    try:
        returned = work()
        torch.cuda.synchronize()
    except BaseException:
        with suppress(Exception):  # what the work has raised says more
            profile.stop()
        raise
    with _faults_of_the_profiler():
        profile.stop()
        results = profile.profiler.kineto_results if profile.profiler else None
        return activities_of(results.events() if results else ()), returned


@contextmanager
def _faults_of_the_profiler() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  torch does not say what its profiler raises
        raise LostActivities(message(error)) from None


def activities_of(events: Iterable[Any]) -> list[Activity]:
    """The activities of the device among the events of torch's profiler."""
    return [
        Activity(
            str(event.name()), event.start_ns(), event.start_ns() + event.duration_ns(), int(event.correlation_id())
        )
        for event in events
        if event.device_type().name == "CUDA"
    ]


def call_times(activities: Sequence[Activity], begin: str, end: str, *, calls: int, timed: int) -> Samples:
    """The times of the last `timed` of so many calls: from the start of a call's first activity to the end of its last one, and
    the gaps in between. `begin` and `end` are the names of the marks around a call.

    Raises LostActivities if marks or times are missing, or if the timed calls have different numbers of activities.
    """
    windows = _windows(activities, begin, end, calls)[-timed:]
    counts = sorted({len(window) for window in windows})
    if len(counts) > 1:
        raise LostActivities(
            f"it shows {counts[0]} device operations (kernels, copies and fills) in one call and {counts[-1]} in another; "
            "either it has lost some, or the provider launches different operations from call to call"
        )
    if counts == [0]:
        raise LostActivities(
            "it shows no kernel, copy or fill in any call; either the profiler has lost them, or the "
            "provider launches none"
        )
    spans_and_gaps = [_span_and_gap_ms(window) for window in windows]
    return Samples([span for span, _ in spans_and_gaps], [gap for _, gap in spans_and_gaps])


def _windows(activities: Sequence[Activity], begin: str, end: str, calls: int) -> list[list[Activity]]:
    """The activities between each mark `begin` and the mark `end` that follows it."""
    if any(activity.launch <= 0 for activity in activities):
        raise LostActivities("it does not say to which launch each kernel, copy or fill belongs")
    windows: list[list[Activity]] = []
    inside, begun, ended = False, 0, 0
    for activity in sorted(activities, key=lambda activity: activity.launch):
        if begin in activity.name:
            inside, begun = True, begun + 1
            windows.append([])
        elif end in activity.name:
            if not inside:
                break
            inside, ended = False, ended + 1
        elif inside:
            windows[-1].append(activity)
    if inside or (begun, ended) != (calls, calls):
        raise LostActivities(f"it shows {begun} starts and {ended} ends of calls, but there were {calls} calls")
    return windows


def _span_and_gap_ms(window: Sequence[Activity]) -> tuple[float, float]:
    ordered = sorted(window, key=lambda activity: activity.start_ns)
    if any(activity.start_ns <= 0 or activity.end_ns < activity.start_ns for activity in ordered):
        raise LostActivities("it shows a kernel without its time")
    start = reached = ordered[0].start_ns
    gap = 0
    for activity in ordered:
        gap += max(activity.start_ns - reached, 0)
        reached = max(reached, activity.end_ns)
    return (reached - start) / 1e6, gap / 1e6
