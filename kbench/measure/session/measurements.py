"""What a worker measures once for all its cases: the cost of its timers, and the clock rate at which its device settles."""

from __future__ import annotations

from dataclasses import dataclass, field

from kbench.measure.machine.settling import SettledClock
from kbench.measure.machine.telemetry import Quantities, Telemetry
from kbench.measure.timing.timer import Timer

EMPTY_ROUNDS = 5
EMPTY_WARMUP_MS, EMPTY_REP_MS = 10.0, 20.0
"""The rounds of the `empty` control of a session, and how long each runs untimed and timed. It is some hundred samples, of
which the median is known to less than a tick of the clock."""


@dataclass(frozen=True)
class EmptyRounds:
    """What a timer adds to the time of a call.

    rounds    samples in ms, one list per round
    readings  telemetry, taken before and after each round
    """

    rounds: list[list[float]] = field(default_factory=list)
    readings: list[Quantities] = field(default_factory=list)


class SessionMeasurements:
    """What this worker has measured so far for all its cases."""

    def __init__(self, telemetry: Telemetry) -> None:
        self.clock = SettledClock(telemetry)
        self._telemetry = telemetry
        self._empty: dict[tuple[str, str], EmptyRounds] = {}

    def empty(self, timer: Timer, cache: str) -> EmptyRounds:
        """What the timer adds to a time with a `cold` or a `warm` cache. Measured at the first call."""
        found = self._empty.get((timer.name, cache))
        if found is None:
            sample, found = timer.empty(), EmptyRounds()
            for number in range(EMPTY_ROUNDS):
                before = self._telemetry.read()
                found.rounds.append(sample(0.0 if number else EMPTY_WARMUP_MS, EMPTY_REP_MS).ms)
                found.readings.extend([before, self._telemetry.read()])
            self._empty[timer.name, cache] = found
        return found
