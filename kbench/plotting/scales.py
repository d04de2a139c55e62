"""Scales. x is logarithmic where sizes grow by factors, y begins at zero where heights are compared. And an axis of changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

from kbench.plotting.names import four_digits, size_text
from kbench.plotting.pages import Value
from kbench.plotting.sheet import text_width
from kbench.text.numbers import format_change

TICK_SIZE, TICK_GAP = 12, 12
"""Font size of ticks, and the least space between two of them along x, in points."""


def scale_x(axes: Axes, sizes: Sequence[float], width: float) -> None:
    """Make x log2 where the sizes grow by factors, linear where they grow by steps. Each size has a tick where there is room
    in `width` points."""
    by_factors = logarithmic(sizes)
    text: Callable[[float], str] = short if by_factors or sizes[-1] >= 1e6 else "{:g}".format
    # digits are equally wide, and to measure every label takes long
    longest = max(map(text, sizes), key=len)
    room = max(2, int(width / (text_width(longest, TICK_SIZE) + TICK_GAP)))
    if by_factors:
        axes.set_xscale("log", base=2)
        margin = (sizes[-1] / sizes[0]) ** 0.03
        axes.set_xlim(sizes[0] / margin, sizes[-1] * margin)
    else:
        margin = 0.025 * (sizes[-1] - sizes[0])
        axes.set_xlim(sizes[0] - margin, sizes[-1] + margin)
    axes.xaxis.set_major_formatter(lambda size, _: text(size))
    if not by_factors or len(sizes) <= room:  # else matplotlib's ticks at powers of two
        axes.xaxis.set_major_locator(FixedLocator(ticks(sizes, room)))
    axes.xaxis.set_minor_locator(NullLocator())


def ticks(sizes: Sequence[float], most: int) -> list[float]:
    """The sizes with a tick: all, if `most` labels side by side have room for them. Otherwise sizes that are far enough apart,
    on an axis of steps multiples of a power of two."""
    by_factors = logarithmic(sizes)
    place = math.log2 if by_factors else float
    least = (place(sizes[-1]) - place(sizes[0])) / most
    left = list(sizes)
    if len(sizes) > most and not by_factors:
        multiples = ([size for size in sizes if size % 2**k == 0] for k in range(40))
        left = next((some for some in multiples if 2 <= len(some) <= most), left)
    chosen = [left[-1]]
    for size in reversed(left[:-1]):
        if place(chosen[-1]) - place(size) >= least:
            chosen.append(size)
    return chosen[::-1]


def logarithmic(values: Sequence[float]) -> bool:
    """Whether sorted sizes are powers of two, or of a wide range and grow more evenly by factors than by steps."""
    if all(value > 0 and math.log2(value).is_integer() for value in values):
        return True
    if len(values) < 3 or values[0] <= 0 or values[-1] < 32 * values[0]:
        return False
    pairs = list(itertools.pairwise(values))
    steps, factors = [b - a for a, b in pairs], [math.log(b / a) for a, b in pairs]
    return max(factors) / min(factors) < max(steps) / min(steps)


def short(size: float) -> str:
    """4096 as `4K`, 1048576 as `1M`. A size that is no whole multiple stays as it is."""
    for unit, suffix in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size / unit:.0f}{suffix}"
    return size_text(size)


def scale_y(axes: Axes, bottom: float, top: float, strip: float) -> None:
    """Make y run from `bottom` to `top`, above a strip without ticks that takes the share `strip` of the height. It is
    logarithmic unless the bottom is 0."""
    if bottom > 0:
        axes.set_yscale("log")
        axes.set_ylim(bottom * (bottom / top) ** (strip / (1 - strip)), top)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.set_ylim(-top * strip / (1 - strip), top)
    axes.yaxis.set_major_locator(FixedLocator(ticks_of_y(bottom, top)))
    axes.yaxis.set_minor_locator(NullLocator())


def ticks_of_y(bottom: float, top: float) -> list[float]:
    """Round values between two limits: factors unless the bottom is 0."""
    if bottom > 0:
        return factors(bottom, top, 8)
    steps = MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top)
    return [step for step in steps if 0 <= step <= top]


def factors(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two limits that lie as close as possible, but are at most so many and not too close for text."""
    apart = (high / low) ** (0.6 / most)
    for subs in ((1, 1.2, 1.5, 2, 3, 5, 7), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1,)):
        numbers = LogLocator(subs=subs, numticks=999).tick_values(low, high)
        inside = [number for number in numbers if low <= number <= high]
        if len(inside) <= most and all(b / a > apart for a, b in itertools.pairwise(inside)):
            return inside
    return inside[:: math.ceil(len(inside) / most)]


def limits(values: Sequence[Value], *, log: bool) -> tuple[float, float]:
    """The range for `scale_y`. It leaves room for bands above the values, at most a quarter: longer bands are cut."""
    least = min((value.value for value in values), default=0.0)
    most = max((value.value for value in values), default=1.0)
    if log and least > 0:
        return least / 1.25, most * 1.25
    high = max((value.high for value in values), default=1.0)
    return 0.0, min(max(high, most), 1.25 * most) or 1.0


@dataclass(frozen=True)
class ChangeAxis:
    """An axis of changes, with its ends as logarithms of a ratio: twice as slow and twice as fast are equally far from 1."""

    low: float
    high: float

    @classmethod
    def of(cls, effects: Sequence[float], ends: Sequence[float], margin: float) -> ChangeAxis:
        """An axis for all changes and the ends of their intervals, except outliers, which would press the others flat. Each
        side reaches at least to twice the share `margin`. Up to ten changes, and up to 25 %, none is an outlier."""
        edge, usual = math.log1p(margin), math.inf
        if len(effects) > 10:
            usual = max(math.log(1.25), 3 * float(np.quantile(np.abs(effects), 0.9)))
        inside = [effect for effect in effects if abs(effect) <= usual]
        longest = 2 * (max(map(abs, inside)) + edge)  # a wider interval is cut
        reached = [-2 * edge, 2 * edge, *inside, *np.clip(ends, -longest, longest)]
        room = 0.08 * (max(reached) - min(reached))
        return cls(float(min(reached) - room), float(max(reached) + room))

    @property
    def in_percent(self) -> bool:
        """Whether the axis is labelled in percent; a longer one is in factors."""
        return max(-self.low, self.high) <= math.log(1.6)

    def label(self, axis: Axis, most: int) -> None:
        """Give an axis of matplotlib about `most` ticks at most."""
        ends = math.exp(self.low), math.exp(self.high)
        if self.in_percent:
            percents = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(*(100 * (end - 1) for end in ends))
            texts = {1 + percent / 100: f"{percent:+.3g}%" if abs(percent) > 1e-6 else "0" for percent in percents}
        else:
            texts = {factor: f"{four_digits(factor)}x" for factor in factors(*ends, most)}
        ticks = {math.log(ratio): text for ratio, text in texts.items() if ends[0] <= ratio <= ends[1]}
        axis.set_major_locator(FixedLocator([*ticks]))
        axis.set_minor_locator(NullLocator())
        axis.set_ticklabels([text.replace("-", "\N{MINUS SIGN}") for text in ticks.values()])

    def text(self, effect: float) -> str:
        """A change beside its mark: `+4.6%`, or `46x` on an axis of factors."""
        ratio = math.exp(effect)
        change = format_change(ratio) if self.in_percent else f"{four_digits(ratio)}x"
        return change.replace("-", "\N{MINUS SIGN}")

    def within(self, effect: float) -> float:
        """The position of an effect, at the edge where it lies beyond the axis."""
        return min(max(effect, 0.97 * self.low), 0.97 * self.high)

    def outside(self, effect: float) -> bool:
        """Whether an effect lies beyond the axis."""
        return effect < self.low or effect > self.high
