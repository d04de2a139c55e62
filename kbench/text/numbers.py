"""How kbench writes numbers for readers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

MEANINGLESS = 10
"""The largest share that is printed as a number. A larger one is printed as "more than 1000 %"."""

PLAUSIBLE_SHARE = 1.5
"""The largest plausible share of the copy control's GB/s. On an H200 the largest of 4,000 rows is 1.2."""


def microseconds(ms: float) -> str:
    """A time in microseconds with three or more significant digits."""
    us = ms * 1e3
    if us < 100:
        return f"{us:.2f}"
    return f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def speed(value: float) -> str:
    """A number of GB/s, GFLOP/s or TFLOP/s with three or more significant digits."""
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def arithmetic_unit(tflops: float) -> tuple[str, float]:
    """The unit for a number of TFLOP/s, and how many of it are one TFLOP/s: GFLOP/s below 0.1 TFLOP/s."""
    return ("TFLOP/s", 1.0) if tflops >= 0.1 else ("GFLOP/s", 1000.0)


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_share(share: float) -> str:
    """A share as text: `0.3 %`, `12 %` from 10 % on, or `more than 1000 %`."""
    if share > MEANINGLESS:
        return f"more than {100 * MEANINGLESS} %"
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def percent(share: float) -> str:
    """`0.5 %`: two digits that count."""
    return f"{float(f'{100 * share:.2g}'):g} %"


def median_share(shares: Sequence[float]) -> str:
    """The median of shares of the copy control or of the speed of light, as text. One above PLAUSIBLE_SHARE is noise, shown as
    `> 1.5`."""
    if not shares:
        return "-"
    middle = median(shares)
    return f"{middle:.2f}" if middle <= PLAUSIBLE_SHARE else f"> {PLAUSIBLE_SHARE}"


def ulps(value: float | None) -> str:
    """An error in units in the last place: one decimal below 10, none above, and three digits from a million on."""
    if value is None:
        return "-"
    if value < 9.95:
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 999_999.5 else f"{value:.3g}"


def factor(ratio: float) -> str:
    return f"{ratio:.3f}" if 0.1 <= ratio < 100 else f"{ratio:.3g}"


def format_change(ratio: float) -> str:
    """A ratio as a change: 1.053 is +5.3%."""
    change = ratio - 1
    text = f"{change:+.1%}" if abs(change) < 10 else f"{change:+.0%}"
    return "0.0%" if text in ("+0.0%", "-0.0%") else text


def interval(ci: tuple[float, float]) -> str:
    """The interval of a change, in percent: `[+4.6, +6.1]`."""
    return f"[{', '.join(format_change(end).removesuffix('%') for end in ci)}]"


def probability(q: float) -> str:
    return "<0.001" if q < 0.001 else f"{q:.3f}"
