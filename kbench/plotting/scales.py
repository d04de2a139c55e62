"""The scales of x and y: logarithmic where sizes grow by factors, from zero where heights are compared."""

from __future__ import annotations

import itertools
import math

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from kbench.plotting.sheet import text_width

TICK_SIZE, TICK_GAP = 12, 12
"""Font size of ticks, and the least space between two of them along x, in points."""


def scale_x(axes: Axes, values: list[float], width: float) -> None:
    """Make x log2 where the sizes grow by factors, linear where they grow by steps.

    Each size has a tick where there is room in `width` points. The limits leave a little space on both sides.
    """
    by_factors = logarithmic(values)
    text = short if by_factors else _stepped_text
    longest = max(map(text, values), key=len)  # digits are equally wide, and to measure every label takes long
    room = max(2, int(width / (text_width(longest, TICK_SIZE) + TICK_GAP)))
    if by_factors:
        axes.set_xscale("log", base=2)
        margin = (values[-1] / values[0]) ** 0.03
        axes.set_xlim(values[0] / margin, values[-1] * margin)
    else:
        margin = 0.025 * (values[-1] - values[0])
        axes.set_xlim(values[0] - margin, values[-1] + margin)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    if not by_factors or len(values) <= room or _powers(values):  # else matplotlib's ticks at powers of two
        axes.xaxis.set_major_locator(FixedLocator(_apart(ticks(values, room), room)))
    axes.xaxis.set_minor_locator(NullLocator())


def _stepped_text(size: float) -> str:
    return f"{size:g}" if size < 1e6 else short(size)


def ticks(values: list[float], most: int) -> list[float]:
    """All values. Where they are too many: multiples of a power of two, or else every n-th value."""
    if len(values) <= most:
        return values
    multiples = ([value for value in values if value % 2**k == 0] for k in range(40)) if not logarithmic(values) else ()
    return next((sizes for sizes in multiples if 2 <= len(sizes) <= most), values[:: math.ceil(len(values) / most)])


def _apart(values: list[float], room: int) -> list[float]:
    """The values whose labels do not touch each other, always with the last value."""
    if len(values) < 3:
        return values
    place = math.log2 if logarithmic(values) else float
    least = (place(values[-1]) - place(values[0])) / room
    chosen = [values[-1]]
    for value in reversed(values[:-1]):
        if place(chosen[-1]) - place(value) >= least:
            chosen.append(value)
    return chosen[::-1]


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
    """4096 as `4K`, 1048576 as `1M`. A size that is no whole multiple stays as it is."""
    for unit, suffix in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size / unit:.0f}{suffix}"
    return f"{size:g}"


def scale_y(axes: Axes, bottom: float, top: float, strip: float) -> None:
    """Make y run from `bottom` to `top`, above a strip that takes the share `strip` of the height.

    It is logarithmic unless the bottom is 0. The strip has no ticks, because its marks have no values.
    """
    if bottom > 0:
        axes.set_yscale("log")
        axes.set_ylim(bottom * (bottom / top) ** (strip / (1 - strip)), top)
        span = top / bottom
        steps: tuple[float, ...] = (1,)
        if span < 6:
            steps = (1, 1.5, 2, 3, 4, 5, 7)
        elif span < 30:
            steps = (1, 2, 3, 5)
        elif span < 1e4:
            steps = (1, 2, 5)
        ticks = LogLocator(subs=steps).tick_values(bottom, top)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_ylim(-top * strip / (1 - strip), top)
        ticks = MaxNLocator(8, steps=[1, 2, 2.5, 5, 10]).tick_values(0, top)
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if bottom <= tick <= top]))
    axes.yaxis.set_minor_locator(NullLocator())


def height_share(value: float, extent: tuple[float, float]) -> float:
    """The height of a value between two limits on the scale of `scale_y`: 0 at the bottom, 1 at the top."""
    bottom, top = extent
    return math.log(value / bottom) / math.log(top / bottom) if bottom > 0 else value / top


def limits(values: list[float], highs: list[float], *, log: bool) -> tuple[float, float]:
    """The range for `scale_y`. It leaves room for bands above the values, at most a quarter: longer bands are cut."""
    if not values:
        return 0.0, 1.0
    least, most = min(values), max(values)
    if log and least > 0:
        return least / 1.25, most * 1.25
    return 0.0, 1.05 * (min(max([*highs, most]), 1.25 * most) or 1.0)
