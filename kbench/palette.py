"""How a picture looks: curves told apart by people with any colour vision and in grey print, and scales that fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

LOOK = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
    "font.size": 11,
    "grid.color": "#E4E4E4",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "axes.axisbelow": True,
    "savefig.dpi": 150,
    "svg.hashsalt": "kbench",
    "text.parse_math": False,  # a `$` in a provider's name or a reason is a dollar
}

# Okabe and Ito (2008), "Color Universal Design", without its yellow, which is lost on white, and with a dark wine red.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":", "-.")

GREY = "#8C8C8C"


@dataclass(frozen=True)
class Style:
    colour: str
    marker: str
    line: str


CEILING = Style(GREY, "", "-")


def styles(names: Sequence[str]) -> dict[str, Style]:
    """A style per curve, in the order given. Eight have a colour and marker of their own; each further eight the next
    line style, with the markers shifted so that the same colour never meets the same marker soon."""
    count = len(COLOURS)
    return {
        name: Style(COLOURS[i % count], MARKERS[(i + 3 * (i // count)) % count], LINES[i // count % len(LINES)])
        for i, name in enumerate(names)
    }


def scale_x(axes: Axes, values: list[float], room: int) -> None:
    """log2 where the sizes grow by factors, linear where they grow by steps; a tick per value where there is room."""
    powers = all(value > 0 and math.log2(value).is_integer() for value in values)
    if powers or _geometric(values):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_locator(MaxNLocator(room // 2 + 2))
    if powers or len(values) <= room:
        axes.xaxis.set_major_locator(FixedLocator(values[:: math.ceil(len(values) / room)]))
    if len(values) <= room:
        axes.xaxis.set_minor_locator(NullLocator())


def scale_y(axes: Axes, values: list[float], may_be_log: bool) -> None:
    """From zero; where it may be and the sorted values differ by more than a factor of ten, logarithmic."""
    if may_be_log and values[-1] > 10 * values[0]:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)


def _geometric(values: list[float]) -> bool:
    """Whether the sizes of a wide range grow more evenly by factors than by steps."""
    if len(values) < 3 or values[0] <= 0 or values[-1] < 32 * values[0]:
        return False
    pairs = list(itertools.pairwise(values))
    steps, factors = [b - a for a, b in pairs], [math.log(b / a) for a, b in pairs]
    return max(factors) / min(factors) < max(steps) / min(steps)


def _short(size: float) -> str:
    """4096 as `4K`, 1048576 as `1M`; what is not a whole multiple stays a number."""
    for unit, suffix in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size / unit:.0f}{suffix}"
    return f"{size:g}"
