"""The page that all pictures share: a title, panels in a grid, a legend and a caption.

The texts are measured, and the page becomes as high as they and the panels need. Matplotlib lays out the panels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.textpath import text_to_path

from kbench.plotting.style import SMALL_PRINT, Theme, row_mark
from kbench.results.vocabulary import Status

PAGE_WIDTHS = {1: 8.0, 2: 10.5, 3: 13.0}
"""In inches, by columns of panels."""

PANEL_TITLE_SIZE, LEGEND_SIZE = 12, 10.5
"""In points."""

POINTS_PER_INCH = 72

BESIDE_PANEL = 1.1
"""What the labels of an axis take of the width of a panel, in inches, about."""

GAP = 0.1
"""Between the edge of the page, its texts and its panels, in inches."""

END_NAME = "end name"
"""What marks a text at the end of a line, so that `settle` finds it."""

STRIP_ROW = 0.05
"""Height of a row of marks below the values, as a share of the panel."""

LegendEntry = tuple[str, Artist]
"""A name and what stands before it."""


def grid(panels: int) -> tuple[int, int]:
    """The columns and rows for a number of panels."""
    columns = 1 if panels == 1 else 2 if panels <= 4 else 3
    return columns, math.ceil(panels / columns)


def panel_width(columns: int, page: int = 0) -> float:
    """The width of the axes of a panel, about, in points. `page` is the number of columns that the page is as wide as."""
    return (PAGE_WIDTHS[page or columns] / columns - BESIDE_PANEL) * POINTS_PER_INCH


def make_page(
    titles: Sequence[str],
    columns: int,
    body: float,
    title: str,
    caption: str,
    entries: Sequence[LegendEntry],
    theme: Theme,
    ratios: Sequence[float] | None = None,
    wide: int = 0,
    y_label: str = "",
    beside: float = BESIDE_PANEL,
) -> tuple[Figure, list[Axes]]:
    """A page with an empty panel for each of `titles`. The panels are `body` inches high together, with a legend below them.

    The page is as wide as one with `wide` columns, by default as it has. `ratios` are the heights of the rows of panels,
    relative to each other, and `y_label` is that of all panels. `beside` is what labels take of a panel's width, in inches.
    """
    width, rows = PAGE_WIDTHS[wide or columns], math.ceil(len(titles) / columns)
    figure = Figure(figsize=(width, body), layout="constrained")
    FigureCanvasAgg(figure)
    room = (width - 2 * GAP) * POINTS_PER_INCH
    above = figure.suptitle(wrap(title, room, 14, weight="bold"), x=GAP / width, ha="left", va="top")
    under = figure.supxlabel(
        wrap(caption, room, SMALL_PRINT), x=GAP / width, ha="left", va="bottom", fontsize=SMALL_PRINT, linespacing=1.25
    )
    under.set_color(theme.muted)
    legends = [_legend(figure, entries, room)] if entries else []
    header, footer = (text.get_window_extent().height / figure.dpi + 2 * GAP for text in (above, under))
    below = footer + sum(legend.get_window_extent().height / figure.dpi for legend in legends)
    height = header + body + below
    figure.set_figheight(height)
    above.set_y(1 - GAP / height)
    under.set_y(GAP / height)
    for legend in legends:
        legend.set_bbox_to_anchor((0, below / height), transform=figure.transFigure)
    for artist in (above, under, *legends):
        artist.set_in_layout(False)
    if y_label:
        figure.supylabel(y_label, y=(below + body / 2) / height, fontsize=12)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, below / height, 1, body / height), w_pad=0.06, h_pad=0.06)
    axes = list(figure.subplots(rows, columns, squeeze=False, height_ratios=ratios).flat)
    for unused in axes[len(titles) :]:
        unused.remove()
    for panel, name in zip(axes, titles, strict=False):
        panel.set_title(wrap(name, (width / columns - beside) * POINTS_PER_INCH, PANEL_TITLE_SIZE), loc="left")
    return figure, axes[: len(titles)]


def _legend(figure: Figure, entries: Sequence[LegendEntry], room: float) -> Legend:
    """A legend in as many columns as fit into the width of the page."""
    names, handles = zip(*entries, strict=True)
    beside, between = 2.1, 1.6  # the sign before a name, and the space between two columns, by the size of letters
    widest = max(text_width(name, LEGEND_SIZE) for name in names) + (beside + between) * LEGEND_SIZE
    rows = math.ceil(len(names) / max(1, int((room + between * LEGEND_SIZE) / widest)))
    return figure.legend(
        handles, names, loc="upper left", ncols=math.ceil(len(names) / rows), fontsize=LEGEND_SIZE, borderaxespad=0.1,
        handlelength=1.6, handletextpad=0.5, columnspacing=between,
    )  # fmt: skip


def name_ends(
    axes: Axes,
    names: Iterable[tuple[float, str, str]],
    theme: Theme,
    size: float = 12,
    apart: float = 14,
    *,
    leaders: bool = True,
) -> None:
    """Write names at the ends of lines, right of a panel: of each its value, its text and the colour of its line. They stand
    `apart` points from the panel. With `leaders` thin lines lead to them, also to one that `settle` moves."""
    for value, name, colour in names:
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)}
        axes.annotate(
            name, (axes.get_xlim()[1], value), (apart, 0), "data", "offset points", va="center", fontsize=size,
            color=theme.readable(colour), annotation_clip=False, arrowprops=leader if leaders else None, gid=END_NAME,
        )  # fmt: skip


def strip_share(rows: int) -> float:
    """The share of a panel's height for rows of marks below the values."""
    return min(0.3, STRIP_ROW * rows)


def draw_strip(
    axes: Axes, rows: Sequence[tuple[str, Mapping[Status, Sequence[float]]]], strip: float, scale: float = 1.0
) -> None:
    """Draw marks of what has no value in the lowest share `strip` of a panel: in each row those of a colour, x by status."""
    height = min(STRIP_ROW, strip / max(1, len(rows)))
    for row, (colour, marks) in enumerate(rows):
        for status, xs in marks.items():
            axes.plot(
                xs, [strip - (row + 0.5) * height] * len(xs), color=colour, zorder=4,
                transform=axes.get_xaxis_transform(), **row_mark(status, scale * height / STRIP_ROW),
            )  # fmt: skip


def settle(figure: Figure) -> Figure:
    """Lay out the panels, once for all formats, and move names at the ends of lines apart. Positions are rounded: the last
    digits of matplotlib's solver differ from one process to the next."""
    engine: Any = figure.get_layout_engine()
    engine.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(bound, 6) for bound in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height))
        names: list[Any] = sorted(
            (text for text in axes.texts if text.get_gid() == END_NAME), key=lambda text: text.xy[1]
        )
        unit = POINTS_PER_INCH / figure.dpi
        heights = [unit * (axes.transData.transform(name.xy)[1] - axes.bbox.y0) for name in names]
        places = spread(
            heights, 1.25 * max((name.get_fontsize() for name in names), default=0), unit * axes.bbox.height
        )
        for name, height, place in zip(names, heights, places, strict=True):
            name.xyann = (name.xyann[0], place - height)
    return figure


def spread(heights: Sequence[float], apart: float, most: float) -> Any:
    """Sorted heights, moved to a distance of `apart`, but not below 0 or above `most`. Heights that are close move as a group,
    half of it up and half of it down."""
    steps = apart * np.arange(len(heights))
    lowered = np.asarray(heights) - steps
    up, down = np.maximum.accumulate(lowered), np.minimum.accumulate(lowered[::-1])[::-1]
    return np.clip((up + down) / 2 + steps, steps, most - steps[::-1])


@cache
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """The width of a line of text in points."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def wrap(text: str, width: float, size: float, weight: str = "normal", indent: str = "    ") -> str:
    """Each line of the text broken so that it fits into a width in points, never before a dot. Continued lines are
    indented."""
    lines = []
    for line in text.split("\n"):
        characters = int(0.96 * len(line) * width / max(text_width(line, size, weight), 1))
        if characters < len(line):
            line = line.replace(" ·", "\N{NO-BREAK SPACE}·")
            line = textwrap.fill(line, max(characters, 8), subsequent_indent=indent, break_on_hyphens=False)
        lines.append(line)
    return "\n".join(lines)
