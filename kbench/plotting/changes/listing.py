"""Changes as a list: a line per row, its name before it and its numbers behind, the worst on top."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from kbench.plotting.changes.panel import Panels

LINE = 0.27
"""Height of a line, in inches."""


def draw(axes: Axes, rows: pd.DataFrame, names: list[str], look: Panels) -> None:
    """Draw rows from top to bottom in their order. A row without a change has its mark at the left edge."""
    scale, theme, looks = look.scale, look.theme, look.looks
    axes.set_xlim(scale.low, scale.high)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    places, texts = scale.ticks(7)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.set_xticklabels(texts)
    axes.set_xlabel(look.label)
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.axvspan(-scale.margin, scale.margin, color=look.band, linewidth=0, zorder=0)
    axes.axvline(0, color=theme.quiet, linewidth=1.2, zorder=1)
    for place, (word, effect, low, high) in enumerate(rows[["word", "effect", "low", "high"]].itertuples(index=False)):
        ink, known = looks.colour(word), not math.isnan(effect)
        if known:
            axes.hlines(place, low, high, color=ink, linewidth=1.6, alpha=0.75, zorder=2)
        axes.plot([scale.within(effect if known else -math.inf)], [place], zorder=3, **looks.mark(word))
        axes.annotate(
            f"{word}  {scale.value(effect)}" if known else word, (1, place), (6, 0), ("axes fraction", "data"),
            "offset points", va="center", fontsize=10.5, color=theme.readable(ink), annotation_clip=False,
        )  # fmt: skip
