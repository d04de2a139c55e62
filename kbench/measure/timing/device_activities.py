"""What CUPTI saw the device do, read through torch.profiler, and which of it belongs to which call.

CUPTI numbers the calls of CUDA's functions in their order. Each kernel, copy and fill carries the number of the function call
that launched it. So a timer launches a mark, an empty kernel, before and after each call: what was launched between the two
belongs to the call, on whatever stream it ran and whatever its name is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch

from kbench.text.exception_text import message


class LostActivities(Exception):
    """The profiler has lost something, so there is no time. Carries the reason."""


@dataclass(frozen=True)
class Activity:
    """A kernel, a copy or a fill.

    start_ns, end_ns  on a clock of the device
    launch            the number of the function call that launched it (CUPTI's correlation ID)
    """

    name: str
    start_ns: int
    end_ns: int
    launch: int


@dataclass(frozen=True)
class CallTime:
    """How long a call kept the device, in ms.

    span_ms  from the start of its first activity to the end of its last one
    busy_ms  the part of that in which at least one of its activities ran
    """

    span_ms: float
    busy_ms: float


def record_activities(work: Callable[[], None]) -> list[Activity]:
    """Do some work, and return what the device did meanwhile. Raises LostActivities if the profiler fails, and what the work
    raises."""
    with _faults_of_the_profiler():
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        profile.start()
    try:
        work()
        torch.cuda.synchronize()
    except BaseException:
        with suppress(Exception):  # what the work has raised says more
            profile.stop()
        raise
    with _faults_of_the_profiler():
        profile.stop()
        results = profile.profiler.kineto_results if profile.profiler else None
        return activities_of(results.events() if results else ())


@contextmanager
def _faults_of_the_profiler() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  torch does not say what its profiler raises
        raise LostActivities(message(error)) from None


def activities_of(events: Iterable[Any]) -> list[Activity]:
    """The activities of the device among the events of torch's profiler, which also has the function calls of the host."""
    return [
        Activity(
            str(event.name()), event.start_ns(), event.start_ns() + event.duration_ns(), int(event.correlation_id())
        )
        for event in events
        if event.device_type().name == "CUDA"
    ]


def call_times(activities: Sequence[Activity], begin: str, end: str, *, calls: int, timed: int) -> list[CallTime]:
    """The times of the last `timed` of so many calls. `begin` and `end` are the names of the marks around a call.

    Raises LostActivities if marks are missing, if an activity has no time, or if the timed calls do not all have the same
    number of activities.
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
    return [_time_of(window) for window in windows]


def _windows(activities: Sequence[Activity], begin: str, end: str, calls: int) -> list[list[Activity]]:
    """The activities between each mark `begin` and the mark `end` that follows it."""
    if any(activity.launch <= 0 for activity in activities):
        raise LostActivities("it does not say to which launch each kernel, copy or fill belongs")
    windows: list[list[Activity]] = []
    inside, begun, ended = False, 0, 0
    for activity in sorted(activities, key=lambda each: each.launch):
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


def _time_of(window: Sequence[Activity]) -> CallTime:
    ordered = sorted(window, key=lambda each: each.start_ns)
    if any(each.start_ns <= 0 or each.end_ns < each.start_ns for each in ordered):
        raise LostActivities("it shows a kernel without its time")
    busy, reached = 0, 0
    for each in ordered:  # those that run at the same time count once
        busy += max(each.end_ns - max(each.start_ns, reached), 0)
        reached = max(reached, each.end_ns)
    return CallTime((reached - ordered[0].start_ns) / 1e6, busy / 1e6)
