"""How reports write numbers and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kbench.analysis.metrics import COMPARED
from kbench.comparison.verdict import Verdict
from kbench.text.terminal import microseconds, speed

Paint = Callable[[Verdict, str], str]
"""Gives a text the colour of a verdict: `paint(Verdict.SLOWER, "! slower")`."""

_COLOURS = {"!": "31", "+": "32", "?": "33", "x": "33"}
"""ANSI codes by glyph: red, green, yellow. `same` and `untimed` have no colour."""


def unpainted(verdict: Verdict, text: str) -> str:
    return text


def painted(verdict: Verdict, text: str) -> str:
    colour = _COLOURS.get(verdict.glyph)
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


@dataclass(frozen=True)
class Quantity:
    """A metric as people read it.

    name   what it measures
    unit   the unit that values are shown in
    show   writes a value of the results file in that unit, without naming the unit
    head   the head of the column of changes
    basis  what follows a change in a sentence

    `head` and `basis` say so when a change is not the quotient of the two values beside it.
    """

    name: str
    unit: str
    show: Callable[[float], str]
    head: str = ""
    basis: str = ""


_SHOWN: dict[str, Callable[[float], str]] = {
    "us": microseconds,
    "GB/s": speed,
    "TFLOP/s": speed,
    "%": lambda share: f"{share * 100:.1f}",
}
"""By unit: how a value of the results file is written in it."""


def quantity(metric: str, aside: str = "", basis: str = "") -> Quantity:
    """A metric for readers. `aside` is added to the head of its changes."""
    shown = COMPARED[metric]
    return Quantity(shown.quantity, shown.unit, _SHOWN[shown.unit], shown.quantity + aside, basis)


def format_change(ratio: float) -> str:
    """A ratio as a change: 1.053 is +5.3%."""
    change = ratio - 1
    text = f"{change:+.1%}" if abs(change) < 10 else f"{change:+.0%}"
    return "0.0%" if text in ("+0.0%", "-0.0%") else text


def interval(ci: tuple[float, float]) -> str:
    """The interval of a change, in percent: `[+4.6, +6.1]`."""
    return f"[{', '.join(format_change(end).removesuffix('%') for end in ci)}]"


def plus_minus(ratio: float, ci: tuple[float, float]) -> str:
    """The distance from a ratio to the further end of its interval, in percent: `±0.7`."""
    away = max(ratio - ci[0], ci[1] - ratio) * 100
    return f"\N{PLUS-MINUS SIGN}{away:.1f}" if away < 10 else f"\N{PLUS-MINUS SIGN}{away:.0f}"


def probability(q: float) -> str:
    return "<0.001" if q < 0.001 else f"{q:.3f}"


def factor(ratio: float) -> str:
    return f"{ratio:.3f}" if 0.1 <= ratio < 100 else f"{ratio:.3g}"
