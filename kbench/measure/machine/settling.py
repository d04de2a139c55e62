"""Keeps the device at work until its clock has settled."""

from __future__ import annotations

import time
from collections.abc import Callable

from kbench.measure.machine.telemetry import CLOCK, Telemetry

WINDOW_S = 0.02
"""Seconds of work between two readings of the clock."""

READINGS = 3
"""The clock has settled when this many readings in a row agree."""

SETTLED = 0.01
"""Readings agree when the largest is at most this share above the smallest."""

LIMIT_S = 2.0
"""The longest wait in seconds. Measuring then starts, whether or not the clock has settled."""


def settle(telemetry: Telemetry, work: Callable[[float], None]) -> None:
    """Keep the device at work until its clock has settled. An idle device takes a while to reach its full clock rate, and the
    first contender would otherwise be timed at a lower one.

    `work(seconds)` runs the contenders for about this long. If the telemetry has no clock, this function returns at once, and
    only the warm-up of each round brings the device to its clock rate.
    """
    clocks: list[float] = []
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        clock = telemetry.read().get(CLOCK)
        if not isinstance(clock, (int, float)):
            return
        clocks = [*clocks, clock][-READINGS:]
        if len(clocks) == READINGS and max(clocks) <= (1 + SETTLED) * min(clocks):
            return
        work(WINDOW_S)
