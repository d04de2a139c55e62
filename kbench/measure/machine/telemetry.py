"""Telemetry: clock, power, temperature and throttling, which a device reports before and after each round.

A source is a library that reads them. Its `read` returns the quantities that it knows, each under the name of its column in
the CSV. A column that no source fills stays empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Protocol

Quantities = Mapping[str, float | tuple[str, ...] | None]
"""Quantities by column: a number, words such as throttle reasons, or None if the device does not report it.

The columns are `sm_mhz`, `power_w`, `temp_c` (degrees Celsius) and `throttle`. results/row.py declares them.
`ENERGY` is not a column: it is the reading of a counter.
"""

ENERGY = "energy_counter_mj"
"""The energy in millijoules that the device has drawn since its driver was loaded."""

ENERGY_ROUND_MS = 500.0
"""Rounds must take this long on average, or their energy is not stated. The counter of an H200 moves every 100 ms, so up to
that long, what a round is said to draw was drawn by the provider before it."""

CLOCK = "sm_mhz"
"""The column of the clock. Timing waits until it has settled."""


class Unanswered(Exception):
    """Raised by a source whose library is installed but does not know this device."""


class Telemetry(Protocol):
    """A source of telemetry for one device. sources.py lists the classes."""

    source: str
    """The library that answers; empty for none."""

    driver: str
    """Version of the device's driver; empty if unknown."""

    def read(self) -> Quantities:
        """The quantities at this moment, without the energy."""

    def energy_counter_mj(self) -> float | None:
        """The counter `ENERGY`; None if the device has none. It takes an H200 3 ms to answer, so only long rounds ask it."""

    def limits(self) -> dict[str, float | None]:
        """Clock and power limits, for the environment file."""

    def peak_gbps(self) -> float | None:
        """Theoretical bandwidth of the memory: bus width x clock x 2, for double data rate."""

    def others(self) -> list[int] | None:
        """Process ids of other programs that compute on the device; None if unknown."""


class Nothing:
    """No telemetry: a host, or a device whose library is not installed."""

    source = driver = ""

    def read(self) -> Quantities:
        return {}

    def energy_counter_mj(self) -> float | None:
        return None

    def limits(self) -> dict[str, float | None]:
        return {}

    def peak_gbps(self) -> float | None:
        return None

    def others(self) -> list[int] | None:
        return None


def telemetry_columns(readings: Sequence[Quantities]) -> dict[str, Any]:
    """The columns of a row from the readings of its rounds: for numbers the median, for words all that occur, joined by `;`."""
    seen: dict[str, list[float | tuple[str, ...]]] = {}
    for reading in readings:
        for column, value in reading.items():
            if value is not None and column != ENERGY:
                seen.setdefault(column, []).append(value)
    return {column: _combined(values) for column, values in seen.items()}


def energy_mj(readings: Sequence[Quantities], calls: Sequence[int]) -> float | None:
    """The energy in mJ that the device drew in some rounds, per call. `readings` are taken before and after each round, `calls`
    is the number of calls in each. The first round, which includes the warm-up, counts only if there is no other. None if the
    device has no counter, or if the counter did not move."""
    counters = [reading.get(ENERGY) for reading in readings]
    rounds = list(zip(counters[::2], counters[1::2], calls, strict=True))
    drawn = counted = 0.0
    for before, after, count in rounds[1:] or rounds:
        if not isinstance(before, (int, float)) or not isinstance(after, (int, float)):
            return None
        drawn, counted = drawn + after - before, counted + count
    return drawn / counted if drawn > 0 and counted else None


def _combined(values: Sequence[float | tuple[str, ...]]) -> float | str:
    numbers = [value for value in values if not isinstance(value, tuple)]
    if numbers:
        return float(median(numbers))
    return ";".join(sorted({word for words in values if isinstance(words, tuple) for word in words}))
