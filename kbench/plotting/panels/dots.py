"""A panel of one case with many curves: a row per curve, with its name, a dot at its value, and the number."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.panels import bars
from kbench.plotting.panels.look import Look
from kbench.plotting.style.formatting import four_digits
from kbench.plotting.style.theme import MARKERS

ROW_INCHES = 0.2
"""Height of a row."""

DOT_TEXT_SIZE = 9.5
"""Font size of names and numbers, in points."""

CLOSE = 0.5
"""Values are close together if the least is more than this share of the largest. The axis then does not begin at zero."""


def draw(axes: Axes, panel: pd.DataFrame, look: Look, top: float) -> None:
    """Draw the curves of a panel, the best on top."""
    theme, drawn = look.theme, bars.bars(panel, look)
    values = [bar.value for bar in drawn if bar.value is not None]
    least = min(values, default=0.0)
    start = least - 0.1 * (top - least) if least > CLOSE * top else 0.0
    axes.set_xlim(start, 1.03 * top)
    bars.draw_frame(axes, panel, look, top)
    bars.name_beside(axes, bars.bar_names(panel, look), DOT_TEXT_SIZE)
    axes.grid(visible=True, axis="y")
    for place, bar in enumerate(drawn):
        colour = look.styles[bar.curve].colour
        text = bar.note if bar.value is None else four_digits(bar.value)
        axes.annotate(
            text, (1, place), (5, 0), ("axes fraction", "data"), "offset points", va="center", fontsize=DOT_TEXT_SIZE,
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
