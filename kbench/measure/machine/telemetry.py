"""Clock, power, temperature and throttling, read before and after each round; how the clock settles before the first; and how
much of the host other processes use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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

SHORTEST_S = 0.2
"""The shortest time in s over which other load is computed. Linux counts in ticks of 10 ms, which is too coarse for less."""

BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
"""The times of a core that count. The guest times do not, because `user` and `nice` include them."""


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


class OtherLoad:
    """How many cores of the host other processes have kept busy since this object was made: the time for which the cores were
    busy minus the CPU time of this worker, the processes that it started, and its parent."""

    def __init__(self) -> None:
        self._start_s, self._busy, self._own_start_s = time.monotonic(), _busy_s(), _own_s()

    def cores(self) -> float | None:
        """The average number of cores that other processes have kept busy; None if unknown."""
        elapsed_s, busy = time.monotonic() - self._start_s, _busy_s()
        if elapsed_s < SHORTEST_S or busy is None or self._busy is None or busy <= self._busy:
            return None  # a sandbox may have the file without counting
        return round(max(0.0, ((busy - self._busy) - (_own_s() - self._own_start_s)) / elapsed_s), 2)


def _busy_s() -> float | None:
    """How long the cores that this process may use were busy; None where the system does not say."""
    import psutil

    try:
        cores = psutil.cpu_times(percpu=True)
        return sum(float(getattr(cores[core], name)) for core in psutil.Process().cpu_affinity() for name in BUSY)
    except (AttributeError, IndexError, OSError):  # not Linux, cores that are off, or a sandbox
        return None


def _own_s() -> float:
    """The CPU time of this worker and what it has started, also if ended, and of its parent."""
    import psutil

    worker = psutil.Process()
    total = 0.0
    for process in (worker, *worker.children(recursive=True)):
        with suppress(psutil.Error):  # it has just ended
            # user and system, its own and that of its ended children
            total += sum(process.cpu_times()[:4])
    with suppress(psutil.Error):
        total += sum(psutil.Process(worker.ppid()).cpu_times()[:2])
    return total
