"""What a script reports: a time, a rate, or neither. It follows from how its number scales with the time of do_bench."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCALE = 10.0
"""How much longer the second made-up time is than the first."""

CLOSENESS = 0.05
"""How far the ratio of two reports may be from SCALE or its inverse: scripts round what they report."""


class QuantityKind(enum.Enum):
    """What a number is. The value says it in words."""

    TIME = "a time"
    RATE = "a rate"
    OTHER = "neither a time nor a rate"


UNITS_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
"""Units of time in ms."""


@dataclass(frozen=True)
class ReportedQuantity:
    """What a script makes of a time.

    unit  of a time: `us`, or `` if it is no usual one
    """

    quantity: QuantityKind
    unit: str = ""


def numbers(returned: Any) -> dict[str, float]:
    """The numbers that a function below `perf_report` returned, by name; the name of a single number is empty. Of a tuple, the
    first: the others are its quantiles."""
    if isinstance(returned, Mapping):
        return {str(name): found for name, value in returned.items() if (found := _number(value)) is not None}
    value = returned[0] if isinstance(returned, (tuple, list)) and returned else returned
    found = _number(value)
    return {} if found is None else {"": found}


def _number(value: Any) -> float | None:
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None
    return found if math.isfinite(found) else None


def classify(first: float, second: float, time_ms: float) -> ReportedQuantity:
    """What a number is that was `first` for a time of `time_ms`, and `second` for SCALE times as much."""
    if first <= 0 or second <= 0:
        return ReportedQuantity(QuantityKind.OTHER)
    ratio = second / first
    if abs(ratio / SCALE - 1) <= CLOSENESS:
        units = [unit for unit, ms in UNITS_MS.items() if abs(first * ms / time_ms - 1) <= CLOSENESS]
        return ReportedQuantity(QuantityKind.TIME, units[0] if units else "")
    if abs(ratio * SCALE - 1) <= CLOSENESS:
        return ReportedQuantity(QuantityKind.RATE)
    return ReportedQuantity(QuantityKind.OTHER)


RATES = {
    "gb/s": ("bytes", 1e9),
    "gib/s": ("bytes", 2.0**30),
    "tb/s": ("bytes", 1e12),
    "tflop": ("flops", 1e12),
    "gflop": ("flops", 1e9),
}
"""How labels name rates, what they count, and how many of it are one unit."""

UNIT_ALIASES = {"gbps": "gb/s", "gbs": "gb/s", "bandwidth": "gb/s", "tbps": "tb/s"}


def counted(rate: float, time_ms: float, *labels: str) -> tuple[str, float] | None:
    """`("bytes", 4096.0)`: what a script counts as the work of a call, from the rate that it reports for a time. None if no
    label (that of the y axis, the name of the plot) says what it counts."""
    for label in labels:
        text = label.lower()
        for alias, name in UNIT_ALIASES.items():
            text = text.replace(alias, name)
        for name, (kind, unit) in RATES.items():
            if name in text:
                return kind, float(round(rate * unit * time_ms * 1e-3))
    return None
