"""The page that all pictures share: a title, panels in a grid, a legend and a caption.

`make_panels` begins a page. `finish` measures its texts, makes it as high as they and the panels need, and lets matplotlib lay
out the panels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from matplotlib.transforms import Bbox

from kbench.plotting.style import SMALL_PRINT, Theme, row_mark
from kbench.results.vocabulary import Status

PAGE_WIDTHS = {1: 8.0, 2: 10.5, 3: 13.0}
"""In inches, by columns of panels."""

PANEL_TITLE_SIZE, LEGEND_SIZE = 12, 10.5
"""In points."""

POINTS_PER_INCH = 72

GAP = 0.1
"""Between the edge of the page, its texts and its panels, in inches."""

END_NAME = "end name"
"""What marks a text at the end of a line, so that `finish` finds it."""

STRIP_ROW = 0.05
"""Height of a row of marks below the values, as a share of the panel."""


@dataclass(frozen=True)
class Grid:
    """Panels with their titles, in columns, on a page of `width` inches. `beside` is what the labels of an axis take of the
    width of a panel, about, in inches."""

    titles: Sequence[str]
    columns: int
    width: float
    beside: float = 1.1

    @classmethod
    def of(cls, titles: Sequence[str]) -> Grid:
        """The grid for a number of panels."""
        columns = 2 if len(titles) <= 4 else 3
        if len(titles) == 1:
            columns = 1
        return cls(titles, columns, PAGE_WIDTHS[columns])

    @property
    def rows(self) -> int:
        return math.ceil(len(self.titles) / self.columns)

    @property
    def panel_width(self) -> float:
        """The width of the axes of a panel, about, in points."""
        return (self.width / self.columns - self.beside) * POINTS_PER_INCH


def make_panels(grid: Grid, height: float, ratios: Sequence[float] | None = None) -> tuple[Figure, list[Axes]]:
    """A page with empty panels, `height` inches high together. `ratios` are the relative heights of their rows."""
    figure = Figure(figsize=(grid.width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(grid.rows, grid.columns, squeeze=False, height_ratios=ratios).flat)
    for unused in axes[len(grid.titles) :]:
        unused.remove()
    for panel, title in zip(axes, grid.titles, strict=False):
        panel.set_title(wrap(title, grid.panel_width, PANEL_TITLE_SIZE), loc="left")
    return figure, axes[: len(grid.titles)]


def finish(
    figure: Figure, title: str, caption: str, legend: Sequence[Artist], theme: Theme, y_label: str = ""
) -> Figure:
    """Put a title above the panels, and a legend and a caption below them. `y_label` is that of all panels. Then lay out the
    page, once for all formats."""
    width, body = figure.get_size_inches()
    room = (width - 2 * GAP) * POINTS_PER_INCH
    above = figure.suptitle(wrap(title, room, 14, weight="bold"), x=GAP / width, ha="left", va="top")
    under = figure.supxlabel(
        wrap(caption, room, SMALL_PRINT),
        x=GAP / width,
        ha="left",
        va="bottom",
        fontsize=SMALL_PRINT,
        linespacing=1.25,
    )
    under.set_color(theme.muted)
    legends = [_legend(figure, legend, room)] if legend else []
    header, footer = (text.get_window_extent().height / figure.dpi + 2 * GAP for text in (above, under))
    below = footer + sum(box.get_window_extent().height / figure.dpi for box in legends)
    height = header + body + below
    figure.set_figheight(height)
    above.set_y(1 - GAP / height)
    under.set_y(GAP / height)
    for box in legends:
        box.set_bbox_to_anchor((0, below / height), transform=figure.transFigure)
    for artist in (above, under, *legends):
        artist.set_in_layout(False)
    if y_label:
        figure.supylabel(y_label, y=(below + body / 2) / height, fontsize=12)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, below / height, 1, body / height), w_pad=0.06, h_pad=0.06)
    engine.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        # the last digits of matplotlib's solver differ from one process to the next
        bounds = (round(bound, 6) for bound in axes.get_position(original=True).bounds)
        axes.set_position(Bbox.from_bounds(*bounds))
        _move_end_names_apart(axes, POINTS_PER_INCH / figure.dpi)
    return figure


def _legend(figure: Figure, handles: Sequence[Artist], room: float) -> Legend:
    """A legend in as many columns as fit into the width of the page."""
    # the sign before a name, and the space between two columns, by the size of letters
    beside, between = 2.1, 1.6
    longest = max(text_width(str(handle.get_label()), LEGEND_SIZE) for handle in handles)
    widest = longest + (beside + between) * LEGEND_SIZE
    rows = math.ceil(len(handles) / max(1, int((room + between * LEGEND_SIZE) / widest)))
    columns = math.ceil(len(handles) / rows)
    spaces = {"borderaxespad": 0.1, "handlelength": 1.6, "handletextpad": 0.5, "columnspacing": between}
    return figure.legend(handles=handles, loc="upper left", ncols=columns, fontsize=LEGEND_SIZE, **spaces)


def name_ends(
    axes: Axes, names: Iterable[tuple[float, str, str]], theme: Theme, size: float = 12, *, leaders: bool = True
) -> None:
    """Write names at the ends of lines, right of a panel: of each its value, its text and the colour of its line. With
    `leaders` thin lines lead to them, also to one that `finish` moves."""
    right, apart = axes.get_xlim()[1], 14 if leaders else 5
    for value, name, colour in names:
        font = {"va": "center", "fontsize": size, "color": theme.readable(colour), "gid": END_NAME}
        if leaders:
            line = {"arrowstyle": "-", "color": colour, "linewidth": 0.9}
            font["arrowprops"] = {**line, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)}
        write_beside(axes, name, (right, value), (apart, 0), **font)


def write_beside(
    axes: Axes,
    text: str,
    place: tuple[float, float],
    points: tuple[float, float],
    coords: Any = "data",
    **font: Any,
) -> None:
    """Write a text at a distance of some points from a place, which may lie outside of the panel."""
    axes.annotate(text, place, points, coords, "offset points", annotation_clip=False, **font)


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
            ys = [strip - (row + 0.5) * height] * len(xs)
            mark = row_mark(status, scale * height / STRIP_ROW)
            axes.plot(xs, ys, color=colour, zorder=4, transform=axes.get_xaxis_transform(), **mark)


def _move_end_names_apart(axes: Axes, unit: float) -> None:
    """Move the names at the ends of lines apart, within the height of the panel. Names that are close move as a group, half of
    it up and half of it down. `unit` is the size of a pixel in points."""
    names: list[Any] = [text for text in axes.texts if text.get_gid() == END_NAME]
    names.sort(key=lambda name: name.xy[1])
    apart = 1.25 * max((name.get_fontsize() for name in names), default=0)
    heights = np.array([unit * (axes.transData.transform(name.xy)[1] - axes.bbox.y0) for name in names])
    steps = apart * np.arange(len(names))
    lowered = heights - steps
    up, down = np.maximum.accumulate(lowered), np.minimum.accumulate(lowered[::-1])[::-1]
    places = np.clip((up + down) / 2 + steps, steps, unit * axes.bbox.height - steps[::-1])
    for name, height, place in zip(names, heights, places, strict=True):
        name.xyann = (name.xyann[0], place - height)


@cache
def text_width(text: str, size: float, weight: str = "normal") -> float:
    """The width of a line of text in points."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, False)[0])


def wrap(text: str, width: float, size: float, weight: str = "normal", indent: str = "    ") -> str:
    """Each line of the text broken to fit into a width in points, never before a dot. Continued lines are indented."""
    lines = []
    for line in text.split("\n"):
        characters = int(0.96 * len(line) * width / max(text_width(line, size, weight), 1))
        if characters < len(line):
            line = line.replace(" ·", "\N{NO-BREAK SPACE}·")
            line = textwrap.fill(line, max(characters, 8), subsequent_indent=indent, break_on_hyphens=False)
        lines.append(line)
    return "\n".join(lines)
