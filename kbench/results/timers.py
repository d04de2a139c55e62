"""The timers, as readers of a row have to know them. A new timer says here what it is, and nobody else needs its name."""

from __future__ import annotations

from dataclasses import dataclass

from kbench.results.row import TICK_MS


@dataclass(frozen=True)
class TimerKind:
    """What follows from the timer that took a row's time.

    resolution_ms  the step between two times of one call; 0.0 where a time is shared by so many calls that there is none
    launches       the host launches each timed call, so that the device may have waited for it within the time
    """

    resolution_ms: float
    launches: bool


TIMERS = {
    "do_bench": TimerKind(TICK_MS, launches=True),
    "clock": TimerKind(TICK_MS, launches=True),
    "graph": TimerKind(0.0, launches=False),
}
"""By what the column `timer` says."""


def timer_kind(name: str) -> TimerKind:
    """The timer of this name. One that nobody knows here, as in a file of another version, is taken for do_bench."""
    return TIMERS.get(name, TIMERS["do_bench"])
