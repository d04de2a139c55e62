"""The properties of each timer. To add a timer, write a class in kbench/measure/timing/ and add a line to `_KINDS`."""

from __future__ import annotations

from dataclasses import dataclass

TICK_MS = 32e-6
"""The resolution of device events: on NVIDIA devices, elapsed times are multiples of 32 ns. kbench never reports a difference
of two ticks or less as a change."""


@dataclass(frozen=True)
class TimerKind:
    """The properties of a timer.

    name            as configs and the column `timer` write it
    description     for help texts
    resolution_ms   the smallest difference between two times, in ms; 0.0 if one time covers so many calls that it is negligible
    launches        whether the host launches each timed call; the time may then include launch overhead. Otherwise it replays
                    calls, on the same buffers and with the same memory for outputs
    implementation  `module:class` of the worker, see measure/timing/timer.py
    adds            whether the control `empty` is a part of every time
    """

    name: str
    description: str
    resolution_ms: float
    launches: bool
    implementation: str
    adds: bool = True


_KINDS = (
    TimerKind(
        "do_bench",
        "an event before and after each call; on a host, its clock",
        TICK_MS,
        True,
        "kbench.measure.timing.do_bench:BenchTimer",
    ),
    TimerKind(
        "graph", "calls in a CUDA graph, for short kernels", 0.0, False, "kbench.measure.timing.graph:GraphTimer"
    ),
    TimerKind(
        "cupti",
        "from the start of a call's first kernel to the end of its last one, as NVIDIA's profiling library CUPTI reports them",
        TICK_MS,
        True,
        "kbench.measure.timing.cupti:CuptiTimer",
        adds=False,
    ),
)

TIMERS = {kind.name: kind for kind in _KINDS}
"""All timers by name."""

DEFAULT_TIMER = _KINDS[0].name


def timer_kind(name: str) -> TimerKind:
    """The timer of this name. An unknown name, from another version of kbench, returns the default timer."""
    return TIMERS.get(name, TIMERS[DEFAULT_TIMER])


def timers_in_words() -> str:
    """What timers are: `do_bench` (an event before and after each call; on a host, its clock), ..."""
    *others, last = (f"`{kind.name}` ({kind.description})" for kind in TIMERS.values())
    return f"{', '.join(others)} or {last}"


def default_cache(device_type: str) -> str:
    """Whether the cache is `cold` or `warm` where nobody says so. After a flush, a short call on a host also waits for the code
    of Python and torch. On a busy machine its sessions then differ by tens of per cent, and warm ones by a few per cent."""
    return "warm" if device_type == "cpu" else "cold"
