"""Changes along a size: what happens to short rows and what to long ones."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.changes.panel import Panels
from kbench.plotting.panels.scale import scale_x

STRIP = 0.1
"""The height of the strip for rows without a change, as a share of the panel."""

MANY = 40
"""Sizes from which on marks are small."""


def draw(
    axes: Axes, rows: pd.DataFrame, look: Panels, x: str, xs: list[float], room: tuple[int, int], *, strip: bool
) -> None:
    """Draw the rows of a panel over their sizes; `xs` are those of all panels, with room for so many ticks along x and y.
    The words of rows without a change are marks in a strip below."""
    scale_x(axes, xs, room[0])
    look.upright(axes, room[1], STRIP if strip else 0.0)
    look = look.scaled(1.0 if len(xs) <= MANY else 0.7)
    told, lost = rows[rows["effect"].notna()], rows[rows["effect"].isna()]
    look.points(axes, told[x].astype("float64"), told)
    for word, group in lost.groupby("word"):
        at, transform = [STRIP / 2] * len(group), axes.get_xaxis_transform()
        axes.plot(group[x].astype("float64"), at, transform=transform, zorder=3, **look.looks.mark(str(word)))
