"""What a process measures with: its device, and what it measures of the device and of its timers once for all its cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from kbench.measure.ceilings import ceiling_gbps, ceiling_tflops
from kbench.measure.machine.device import Device
from kbench.measure.machine.settling import SettledClock
from kbench.measure.machine.telemetry import Quantities, find_telemetry
from kbench.measure.timing.timer import Timer

EMPTY_ROUNDS = 5
EMPTY_WARMUP_MS, EMPTY_REP_MS = 10.0, 20.0
"""The rounds of the `empty` control, and how long each runs untimed and timed. It is some hundred samples, of which the median
is known to less than a tick of the clock."""


@dataclass(frozen=True)
class EmptyRounds:
    """What a timer adds to the time of a call.

    rounds    samples in ms, one list per round
    readings  telemetry, taken before and after each round
    """

    rounds: list[list[float]] = field(default_factory=list)
    readings: list[Quantities] = field(default_factory=list)


class Instruments:
    """The device of this process, its telemetry, and the clock rate at which it settles.

    The ceilings and the cost of a timer are measured when they are first asked for. It is after the providers of a case were
    checked, so one that takes the worker down costs no measurement of them.
    """

    def __init__(self, device: Device) -> None:
        self.device, self.telemetry = device, find_telemetry(device)
        self.clock = SettledClock(self.telemetry)
        self._tflops: dict[str, float | None] = {}
        self._empty: dict[tuple[str, str], EmptyRounds] = {}

    @cached_property
    def gbps(self) -> float | None:
        """GB/s of a large copy: the ceiling of bandwidth. See `ceiling_gbps`."""
        return ceiling_gbps(self.device)

    def tflops(self, dtype: str) -> float | None:
        """TFLOP/s of the best large matrix product: the ceiling of computation. See `ceiling_tflops`."""
        if dtype not in self._tflops:
            self._tflops[dtype] = ceiling_tflops(self.device, dtype)
        return self._tflops[dtype]

    def empty(self, timer: Timer, cache: str) -> EmptyRounds:
        """What the timer adds to a time with a `cold` or a `warm` cache."""
        if (timer.name, cache) not in self._empty:
            sample, empty = timer.empty(), EmptyRounds()
            for number in range(EMPTY_ROUNDS):
                before = self.telemetry.read()
                empty.rounds.append(sample(0.0 if number else EMPTY_WARMUP_MS, EMPTY_REP_MS).ms)
                empty.readings.extend([before, self.telemetry.read()])
            self._empty[timer.name, cache] = empty
        return self._empty[timer.name, cache]
