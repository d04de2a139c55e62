"""The page that all pictures share: a title, panels in a grid, legends and a caption.

The texts are measured, and the page becomes as high as they and the panels need. Matplotlib lays out the panels.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.textpath import text_to_path

from kbench.plotting.style import SMALL_PRINT, Theme

PAGE_WIDTHS = {1: 8.0, 2: 10.5, 3: 13.0}
"""In inches, by columns of panels."""

POINTS_PER_INCH = 72

SMALL_LEGEND = 10.5
"""The size of the letters of a legend below the panels, in points."""

BESIDE_PANEL = 1.1
"""What the labels of an axis take of the width of a panel, in inches, about."""

GAP = 0.1
"""Between the edge of the page, its texts and its panels, in inches."""

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
    panels: int,
    columns: int,
    body: float,
    title: str,
    caption: str,
    legends: Sequence[Sequence[LegendEntry]],
    theme: Theme,
    wide: int = 0,
    ratios: Sequence[float] | None = None,
    y_label: str = "",
) -> tuple[Figure, list[Axes]]:
    """A page with empty panels, which are `body` inches high together. The legends stand below the panels, the first on top.

    The page is as wide as one with `wide` columns, by default as it has. `ratios` are the heights of the rows of panels,
    relative to each other, and `y_label` is that of all panels.
    """
    width, rows = PAGE_WIDTHS[wide or columns], math.ceil(panels / columns)
    figure = Figure(figsize=(width, body), layout="constrained")
    FigureCanvasAgg(figure)
    room = (width - 2 * GAP) * POINTS_PER_INCH
    above = figure.suptitle(wrap(title, room, 14, weight="bold"), x=GAP / width, ha="left", va="top")
    under = figure.supxlabel(
        wrap(caption, room, SMALL_PRINT), x=GAP / width, ha="left", va="bottom", fontsize=SMALL_PRINT, linespacing=1.25
    )
    under.set_color(theme.muted)
    blocks = [_legend(figure, entries) for entries in legends if entries]
    header, footer = (text.get_window_extent().height / figure.dpi + 2 * GAP for text in (above, under))
    block_heights = [block.get_window_extent().height / figure.dpi for block in blocks]
    below = footer + sum(block_heights)
    height = header + body + below
    figure.set_figheight(height)
    above.set_y(1 - GAP / height)
    under.set_y(GAP / height)
    top = below
    for block, block_height in zip(blocks, block_heights, strict=True):
        block.set_bbox_to_anchor((0, top / height), transform=figure.transFigure)
        top -= block_height
    for artist in (above, under, *blocks):
        artist.set_in_layout(False)
    if y_label:
        figure.supylabel(y_label, y=(below + body / 2) / height, fontsize=12)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, below / height, 1, body / height), w_pad=0.06, h_pad=0.06)
    axes = list(figure.subplots(rows, columns, squeeze=False, height_ratios=ratios).flat)
    for unused in axes[panels:]:
        unused.remove()
    return figure, axes[:panels]


def _legend(figure: Figure, entries: Sequence[LegendEntry]) -> Legend:
    """A legend in as many columns as fit into the width of the page."""
    names, handles = zip(*entries, strict=True)

    def legend(columns: int) -> Legend:
        return figure.legend(
            handles, names, loc="upper left", ncols=columns, fontsize=SMALL_LEGEND, borderaxespad=0.1, handlelength=1.6,
            handletextpad=0.5, columnspacing=1.6,
        )  # fmt: skip

    single = legend(1)
    gap = single.columnspacing * SMALL_LEGEND / POINTS_PER_INCH * figure.dpi
    columns = int((figure.bbox.width + gap) // (single.get_window_extent().width + gap))
    if columns <= 1:
        return single
    single.remove()
    return legend(min(columns, len(entries)))


def settle(figure: Figure) -> None:
    """Lay out the panels, once for all formats. Positions are rounded: the last digits of matplotlib's solver differ from one
    process to the next."""
    engine = figure.get_layout_engine()
    if engine is None:
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(bound, 6) for bound in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height))


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
