"""What a script counts as the work of a call, from the rate that it reports for a time."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

UNITS_MS = (1e-6, 1e-3, 1.0, 1e3)
"""Nanoseconds, microseconds, milliseconds and seconds in ms."""

RATE = re.compile(r"(?P<prefix>[kmgt])(?:(?P<binary>i?)b ?(?:/ ?s|ps)|(?P<flops>flop))", re.IGNORECASE)
"""How a label names a rate: GB/s, GiB/s, TBps, TFLOPS."""

PREFIXES = "kmgt"

ROUNDED = 0.01
"""A rate that is rounded to steps of more than this share of it says nothing."""


def counted_work(returned: Any, time_ms: float, *labels: str) -> tuple[str, int] | None:
    """`("bytes", 4096)`: what a script counts as the work of a call of which it was told this time. None if it reports no rate,
    or if no label (the key of a dict, that of the y axis, the name of the plot) names its unit."""
    for name, value in _numbers(returned):
        if value <= 0 or _is_time(value, time_ms) or _is_rounded(value):
            continue
        for label in (name, *labels):
            if (match := RATE.search(label)) and "%" not in label:
                base = 1024 if match["binary"] else 1000
                unit = float(base ** (PREFIXES.index(match["prefix"].lower()) + 1))
                return "flops" if match["flops"] else "bytes", round(value * unit * time_ms * 1e-3)
    return None


def _numbers(returned: Any) -> Iterator[tuple[str, float]]:
    """The numbers that a function below `perf_report` returned, with their names in a dict. Of a tuple, the first: the others
    are its quantiles."""
    if not isinstance(returned, Mapping):
        returned = {"": returned[0] if isinstance(returned, (tuple, list)) and returned else returned}
    for name, value in returned.items():
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            continue
        if math.isfinite(number):
            yield str(name), number


def _is_time(value: float, time_ms: float) -> bool:
    return any(math.isclose(value * unit_ms, time_ms, rel_tol=1e-6) for unit_ms in UNITS_MS)


def _is_rounded(value: float) -> bool:
    return any(value == round(value, digits) and 10**-digits > 2 * ROUNDED * value for digits in range(5))
