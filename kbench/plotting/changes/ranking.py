"""More changes than a list has lines for: all of them side by side in their order."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kbench.plotting.changes.panel import Panels


def draw(axes: Axes, rows: pd.DataFrame, look: Panels) -> None:
    """Draw rows from left to right in their order. They all have a change."""
    look.upright(axes, ticks=8)
    axes.set_xlim(-0.02 * len(rows), 1.02 * len(rows))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(look.label)
    axes.set_xlabel("rows in the order of their changes")
    places = pd.Series(range(1, len(rows) + 1), rows.index, dtype="float64")
    look.scaled(0.7).points(axes, places, rows)
