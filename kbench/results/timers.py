"""The timers: what others need to know of each. A new timer is a class in kbench/measure/timing/ and a line in TIMERS."""

from __future__ import annotations

from dataclasses import dataclass

TICK_MS = 32e-6
"""The resolution of device events: elapsed times are multiples of 32 ns on NVIDIA devices. A difference of two ticks or less
is never taken for real."""


@dataclass(frozen=True)
class TimerKind:
    """The properties of a timer.

    name            as configs and the column `timer` write it
    description     for help texts
    resolution_ms   the step between two times of one call; 0.0 if a time is shared by so many calls that there is no step
    launches        the host launches each timed call, so the device may have waited for it within the time
    implementation  `module:class` of the worker (see measure/timing/timer.py); empty if a config cannot choose the timer
    """

    name: str
    description: str
    resolution_ms: float
    launches: bool
    implementation: str = ""


_KINDS = (
    TimerKind(
        "do_bench", "an event before and after each call", TICK_MS, True, "kbench.measure.timing.do_bench:BenchTimer"
    ),
    TimerKind("graph", "calls in a CUDA graph", 0.0, False, "kbench.measure.timing.graph:GraphTimer"),
    TimerKind("clock", "do_bench's protocol on the host's clock, where Triton is not installed", TICK_MS, True),
)

TIMERS = {kind.name: kind for kind in _KINDS}
"""By name."""

DEFAULT_TIMER = _KINDS[0].name

SELECTABLE_TIMERS = tuple(kind.name for kind in _KINDS if kind.implementation)
"""Those that a config can choose."""


def timer_kind(name: str) -> TimerKind:
    """The timer of this name. An unknown one, as in a file of another version, counts as the default."""
    return TIMERS.get(name, TIMERS[DEFAULT_TIMER])
