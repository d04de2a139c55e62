"""Clock, power, temperature and throttling, read before and after each round, and how the clock settles before the first."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from statistics import median
from typing import Any

import torch

from kbench.measure.machine.device import Device
from kbench.nvml import Card, CardError

Quantities = Mapping[str, float | tuple[str, ...] | None]
"""Quantities by column: a number, words such as throttle reasons, or None if the device does not report it.

The columns are `sm_mhz`, `power_w`, `temp_c` (degrees Celsius) and `throttle`. results/row.py declares them."""

CLOCK = "sm_mhz"
"""The column of the clock. Timing waits until it has settled."""

WINDOW_S = 0.02
"""Seconds of work between two readings of the clock."""

READINGS = 3
"""The clock has settled when this many readings in a row agree."""

SETTLED = 0.01
"""Readings agree when the largest is at most this share above the smallest."""

SETTLING_LIMIT_S = 2.0
"""The longest wait in seconds. Measuring then starts, whether or not the clock has settled."""


class Telemetry:
    """Reads one device, and knows at which rate its clock settled last. A host has no card."""

    def __init__(self, card: Card | None = None) -> None:
        self._card = card
        self._settled: list[float] = []
        self.source = "NVML" if card else ""
        self.driver = card.driver() if card else ""

    def read(self) -> Quantities:
        """The quantities at this moment."""
        card = self._card
        if not card:
            return {}
        return {
            "sm_mhz": card.sm_mhz(),
            "power_w": card.power_w(),
            "temp_c": card.celsius(),
            "throttle": card.throttling(),
        }

    @cached_property
    def limits(self) -> dict[str, float | None]:
        """Clock and power limits, for the environment file."""
        card = self._card
        if not card:
            return {}
        return {
            "max_sm_mhz": card.max_sm_mhz(),
            "max_mem_mhz": card.max_memory_mhz(),
            "bus_bits": card.bus_bits(),
            "power_limit_w": card.power_limit_w(),
        }

    @property
    def peak_gbps(self) -> float | None:
        """Theoretical bandwidth of the memory: bus width x clock x 2, for double data rate."""
        mhz, bits = self.limits.get("max_mem_mhz"), self.limits.get("bus_bits")
        return None if mhz is None or bits is None else mhz * 1e6 * 2 * bits / 8 * 1e-9

    def others(self) -> list[int] | None:
        """Process ids of other programs that compute on the device; None if unknown."""
        pids = self._card.process_ids() if self._card else None
        return None if pids is None else [pid for pid in pids if pid != os.getpid()]

    def settle(self, work: Callable[[float], None]) -> None:
        """Keep the device at work until its clock has settled. An idle device takes a while to reach its full clock rate, and
        the first contender would otherwise be timed at a lower one.

        One reading is enough if the clock still has the rate at which it settled last. `work(seconds)` runs the contenders.
        Without a clock to read, only the warm-up brings the device to its clock rate.
        """
        clocks = self._settled
        end = time.monotonic() + SETTLING_LIMIT_S
        while time.monotonic() < end:
            clock = self.read().get(CLOCK)
            if not isinstance(clock, (int, float)):
                return
            clocks = [*clocks, clock][-READINGS:]
            if len(clocks) == READINGS and max(clocks) <= (1 + SETTLED) * min(clocks):
                self._settled = clocks[1:]
                return
            work(WINDOW_S)
        self._settled = []


def find_telemetry(device: Device) -> Telemetry:
    """The telemetry of a device; that of nothing if NVML does not know the device."""
    if device.type != "cuda":
        return Telemetry()
    try:
        return Telemetry(Card(f"GPU-{torch.cuda.get_device_properties(device.torch_device).uuid}"))
    except CardError:
        return Telemetry()


def telemetry_columns(readings: Sequence[Quantities]) -> dict[str, Any]:
    """The columns of a row from its readings: the median of numbers, all words joined by `;`."""
    columns: dict[str, Any] = {}
    for column in dict.fromkeys(chain.from_iterable(readings)):
        values = [reading.get(column) for reading in readings]
        if numbers := [value for value in values if isinstance(value, (int, float))]:
            columns[column] = float(median(numbers))
        elif all_words := [words for words in values if isinstance(words, tuple)]:
            columns[column] = ";".join(sorted(set(chain.from_iterable(all_words))))
    return columns
