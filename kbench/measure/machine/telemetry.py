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

The columns are `sm_mhz`, `power_w`, `temp_c` (degrees Celsius) and `throttle`. results/columns.py declares them.
"""

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

    def read(self) -> Quantities: ...

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
            if value is not None:
                seen.setdefault(column, []).append(value)
    return {column: _combined(values) for column, values in seen.items()}


def _combined(values: Sequence[float | tuple[str, ...]]) -> float | str:
    numbers = [value for value in values if not isinstance(value, tuple)]
    if numbers:
        return float(median(numbers))
    return ";".join(sorted({word for words in values if isinstance(words, tuple) for word in words}))
