"""A panel of one case with many curves: a line for each, a dot at its value, and the number behind."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.panels import bars
from kbench.plotting.style.look import Look
from kbench.plotting.style.theme import MARKERS
from kbench.plotting.style.words import figures

MANY = 12
"""Curves of a case up to which they are bars."""

LINE = 0.2
"""Height of a line, in inches."""

SMALL = 9.5
"""Font size of names and numbers."""


def draw(axes: Axes, panel: pd.DataFrame, look: Look, top: float) -> None:
    """The best on top. The axis begins at zero where the values are not close together."""
    theme, drawn = look.theme, bars.bars(panel, look)
    values = [bar.value for bar in drawn if bar.value is not None]
    least = min(values, default=0.0)
    start = least - 0.1 * (top - least) if least > 0.5 * top else 0.0
    axes.set_xlim(start, 1.03 * top)
    bars.frame(axes, drawn, panel, look, top, SMALL)
    axes.grid(visible=True, axis="y")
    for place, bar in enumerate(drawn):
        colour = look.colour(bar.curve)
        text = bar.note if bar.value is None else figures(bar.value)
        axes.annotate(
            text, (1, place), (5, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=SMALL,
            color=theme.ink if bar.value is not None else theme.readable(colour), annotation_clip=False,
        )  # fmt: skip
        if bar.value is None:
            continue
        axes.hlines(place, bar.low, bar.high, color=colour, linewidth=1.6, alpha=0.6, zorder=2)
        marker = MARKERS[look.files.index(bar.file) % len(MARKERS)]
        face = theme.background if bar.hollow else colour
        axes.plot(
            [bar.value], [place], marker=marker, markersize=6, color=colour, markerfacecolor=face, markeredgecolor=colour,
            markeredgewidth=1.4, linestyle="", zorder=3, clip_on=False,
        )  # fmt: skip
