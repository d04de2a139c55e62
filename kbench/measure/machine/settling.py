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

SETTLING_LIMIT_S = 2.0
"""The longest wait in seconds. Measuring then starts, whether or not the clock has settled."""


class SettledClock:
    """The clock of the device, and the rate at which it settled last."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._settled: list[float] = []

    def settle(self, work: Callable[[float], None]) -> None:
        """Keep the device at work until its clock has settled. An idle device takes a while to reach its full clock rate, and
        the first contender would otherwise be timed at a lower one.

        One reading is enough if the clock still has the rate at which it settled last. `work(seconds)` runs the contenders
        for about this long. If the telemetry has no clock, this method returns at once, and only the warm-up brings the
        device to its clock rate.
        """
        clocks = self._settled
        end = time.monotonic() + SETTLING_LIMIT_S
        while time.monotonic() < end:
            clock = self._telemetry.read().get(CLOCK)
            if not isinstance(clock, (int, float)):
                return
            clocks = [*clocks, clock][-READINGS:]
            if len(clocks) == READINGS and max(clocks) <= (1 + SETTLED) * min(clocks):
                self._settled = clocks[1:]
                return
            work(WINDOW_S)
        self._settled = []
