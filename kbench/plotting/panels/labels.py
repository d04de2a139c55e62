"""Names at the ends of lines, in place of a legend, where there is room for all of them."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from kbench.plotting.panels.look import Look
from kbench.plotting.panels.scale import height_share
from kbench.plotting.selection.points import VALUE, pool

LABEL_HEIGHT = 15.0
"""In points."""

FARTHEST = 2.5 * LABEL_HEIGHT
"""How far from the end of its line a label may stand, in points."""

LONGEST_LABEL = 24
"""In characters."""

MOST_LABELS = 9


def positions(
    panel: pd.DataFrame, look: Look, extent: tuple[float, float], height: float
) -> dict[str, tuple[float, float]] | None:
    """For each curve its last value, and how far above that value its label stands, in points.

    `height` of the panel is in points. Labels have the order of the lines and do not overlap. The result is None where
    the labels do not all fit.
    """
    ends = _ends(panel)
    if len(look.files) > 1 or ends is None or not 1 <= len(ends) <= MOST_LABELS:
        return None
    if any(len(look.names[curve]) > LONGEST_LABEL for curve in ends):
        return None
    wanted = {
        curve: height_share(value, extent) * height
        for curve, value in sorted(ends.items(), key=lambda end: (end[1], end[0]))
    }
    placed = spread(list(wanted.values()))
    moved = {curve: at - wish for (curve, wish), at in zip(wanted.items(), placed, strict=True)}
    if max(map(abs, moved.values())) > FARTHEST or placed[0] < -LABEL_HEIGHT / 2 or placed[-1] > height + LABEL_HEIGHT:
        return None
    return {curve: (ends[curve], up) for curve, up in moved.items()}


def draw(axes: Axes, placed: dict[str, tuple[float, float]], look: Look) -> None:
    """Write the labels right of the panel. A thin line leads to a label that had to move."""
    right = axes.get_xlim()[1]
    for curve, (value, up) in placed.items():
        colour = look.styles[curve].colour
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)}
        axes.annotate(
            look.names[curve], (right, value), (14, up), "data", "offset points", va="center", fontsize=12,
            color=look.theme.readable(colour), annotation_clip=False, arrowprops=leader,
        )  # fmt: skip


def _ends(panel: pd.DataFrame) -> dict[str, float] | None:
    """The last value of each curve; None where a curve ends before the panel does or has no x."""
    values = panel[(panel["kind"] == VALUE) & panel["value"].notna()]
    last = values["x"].max()
    at_end = pool(values[values["x"] == last], "curve")["value"]
    if set(at_end.index) != set(panel.loc[panel["kind"] != "", "curve"]):
        return None
    return {str(curve): float(value) for curve, value in at_end.items()}


def spread(wanted: list[float]) -> list[float]:
    """Sorted heights, moved apart to a distance of LABEL_HEIGHT. Labels that touch move as a group, as little as possible."""
    groups: list[list[float]] = []
    for wish in wanted:
        groups.append([wish])
        while len(groups) > 1 and _first(groups[-1]) < _first(groups[-2]) + len(groups[-2]) * LABEL_HEIGHT:
            last = groups.pop()
            groups[-1] += last
    return [_first(group) + i * LABEL_HEIGHT for group in groups for i in range(len(group))]


def _first(group: list[float]) -> float:
    """The height of the first label of a group that is centred on the heights its members want."""
    return sum(wish - i * LABEL_HEIGHT for i, wish in enumerate(group)) / len(group)
