"""Axes that fit the values: logarithmic where sizes grow by factors, from zero where heights are compared."""

from __future__ import annotations

import itertools
import math

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, MultipleLocator, NullLocator


def scale_x(axes: Axes, values: list[float], room: int) -> None:
    """log2 where the sizes grow by factors, linear where they grow by steps; a tick per value where there is room for
    `room` of them. The limits leave a little space on both sides."""
    if logarithmic(values):
        axes.set_xscale("log", base=2)
        margin = (values[-1] / values[0]) ** 0.03
        axes.set_xlim(values[0] / margin, values[-1] * margin)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    else:
        margin = 0.025 * (values[-1] - values[0])
        axes.set_xlim(values[0] - margin, values[-1] + margin)
        axes.xaxis.set_major_locator(_stepped(values, room // 2 + 2))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}" if value < 1e6 else short(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    if len(values) <= room or _powers(values):
        axes.xaxis.set_major_locator(FixedLocator(_apart(values[:: math.ceil(len(values) / room)], room)))


def _stepped(values: list[float], most: int) -> MultipleLocator | MaxNLocator:
    """Ticks at 2048, 4096 ... where the sizes are multiples of 64 themselves, else where people expect them."""
    if all(value % 64 == 0 for value in values):
        return MultipleLocator(2 ** math.ceil(math.log2((values[-1] - values[0]) / most)))
    return MaxNLocator(most)


def _apart(values: list[float], room: int) -> list[float]:
    """The values without those whose labels would touch the one before on a linear axis; the last one stays."""
    if logarithmic(values) or len(values) < 3:
        return values
    least = (values[-1] - values[0]) / room
    kept = [values[-1]]
    for value in reversed(values[:-1]):
        if kept[-1] - value >= least:
            kept.append(value)
    return kept[::-1]


def logarithmic(values: list[float]) -> bool:
    """Whether sorted sizes are powers of two, or of a wide range and grow more evenly by factors than by steps."""
    if _powers(values):
        return True
    if len(values) < 3 or values[0] <= 0 or values[-1] < 32 * values[0]:
        return False
    pairs = list(itertools.pairwise(values))
    steps, factors = [b - a for a, b in pairs], [math.log(b / a) for a, b in pairs]
    return max(factors) / min(factors) < max(steps) / min(steps)


def _powers(values: list[float]) -> bool:
    return all(value > 0 and math.log2(value).is_integer() for value in values)


def short(size: float) -> str:
    """4096 as `4K`, 1048576 as `1M`; what is not a whole multiple stays a number."""
    for unit, suffix in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size / unit:.0f}{suffix}"
    return f"{size:g}"


def scale_y(axes: Axes, bottom: float, top: float, strip: float) -> None:
    """From `bottom` to `top`, logarithmic unless the bottom is 0, above a strip that takes this share of the height.

    No tick stands in the strip: what is in it has no value.
    """
    if bottom > 0:
        axes.set_yscale("log")
        axes.set_ylim(bottom * (bottom / top) ** (strip / (1 - strip)), top)
        span = top / bottom
        steps = (
            (1, 1.5, 2, 3, 4, 5, 7) if span < 6 else (1, 2, 3, 5) if span < 30 else (1, 2, 5) if span < 1e4 else (1,)
        )
        ticks = LogLocator(subs=steps).tick_values(bottom, top)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(-top * strip / (1 - strip), top)
        ticks = MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top)
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if bottom <= tick <= top]))
    axes.yaxis.set_minor_locator(NullLocator())


def share(value: float, extent: tuple[float, float]) -> float:
    """How far up between two limits a value stands, on the scale that `scale_y` makes of them: 0 to 1."""
    bottom, top = extent
    return math.log(value / bottom) / math.log(top / bottom) if bottom > 0 else value / top


def limits(values: list[float], highs: list[float], *, log: bool) -> tuple[float, float]:
    """The range for `scale_y`. Bands may reach beyond the values, but a wild one does not press the lines flat."""
    if not values:
        return 0.0, 1.0
    least, most = min(values), max(values)
    if log and least > 0:
        return least / 1.25, most * 1.25
    return 0.0, 1.05 * (min(max([*highs, most]), 1.25 * most) or 1.0)
