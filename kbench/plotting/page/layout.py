"""The sheet that panels are drawn on: the title above, legends and the caption below, and the room that these need.

Sizes are in inches and follow from the text. Matplotlib lays out only the panels and a legend beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from kbench.plotting.style.formatting import wrap
from kbench.plotting.style.theme import SMALL_PRINT, Theme

PAGE_WIDTHS = {1: 8.0, 2: 10.5, 3: 13.0}
"""In inches, by columns of panels."""

POINTS_PER_INCH = 72


@dataclass(frozen=True)
class Inches:
    """Distances on a sheet."""

    title_line: float = 0.27
    caption_line: float = 0.165
    legend_row: float = 0.22
    below_legend: float = 0.08
    above_legends: float = 0.03
    edge: float = 0.1
    above_title: float = 0.12
    around_title: float = 0.14
    below_caption: float = 0.07
    around_panels: float = 0.06
    legend_letter: float = 0.088
    legend_handle: float = 0.55


INCHES = Inches()

TITLE_LETTERS, CAPTION_LETTERS = 8.2, 14.5
"""Characters in an inch of the title and of the caption."""

LegendEntry = tuple[str, Artist]
"""A name and what stands before it."""


class SettledLayout(ConstrainedLayoutEngine):
    """Matplotlib's layout with rounded positions: the last digits of its solver differ from one process to the next."""

    def execute(self, fig: Figure) -> Any:
        grids = super().execute(fig)
        for axes in fig.axes:
            bounds = axes.get_position(original=True).bounds
            # `set_position` would take the panel out of the layout, which is made once for each format.
            axes._set_position([round(bound, 6) for bound in bounds])  # type: ignore[attr-defined]
        return grids


@dataclass(frozen=True)
class LegendBlock:
    """Legend entries in columns."""

    entries: Sequence[LegendEntry]
    columns: int

    @classmethod
    def across(cls, width: float, entries: Sequence[LegendEntry]) -> LegendBlock:
        """The entries in as many columns as fit into a width in inches."""
        longest = max(len(name) for name, _ in entries)
        column = INCHES.legend_letter * longest + INCHES.legend_handle
        return cls(entries, max(1, min(len(entries), int(width / column))))

    @property
    def height(self) -> float:
        """In inches."""
        return INCHES.legend_row * -(-len(self.entries) // self.columns) + INCHES.below_legend


@dataclass(frozen=True)
class Sheet:
    """`body` is the height of all panels together, in inches. `below` are the legends below them, the first on top."""

    columns: int
    body: float
    title: str
    caption: str
    below: Sequence[LegendBlock]
    theme: Theme

    @property
    def width(self) -> float:
        """In inches."""
        return PAGE_WIDTHS[self.columns]

    def figure(self) -> Figure:
        """A figure without panels, with the text around them."""
        title = wrap(self.title, round(TITLE_LETTERS * self.width))
        caption = wrap(self.caption, round(CAPTION_LETTERS * self.width))
        header = INCHES.around_title + INCHES.title_line * (title.count("\n") + 1)
        print_height = INCHES.edge + INCHES.caption_line * (caption.count("\n") + 1)
        footer = print_height + sum(block.height for block in self.below)
        height = header + self.body + footer
        figure = Figure(figsize=(self.width, height), layout=SettledLayout())
        FigureCanvasAgg(figure)
        engine: Any = figure.get_layout_engine()
        around = INCHES.around_panels
        engine.set(rect=(0, footer / height, 1, self.body / height), w_pad=around, h_pad=around)
        left = INCHES.edge / self.width
        above = figure.suptitle(title, x=left, y=1 - INCHES.above_title / height, ha="left", va="top")
        under = figure.supxlabel(
            caption, x=left, y=INCHES.below_caption / height, ha="left", va="bottom", fontsize=SMALL_PRINT,
            linespacing=1.25,
        )  # fmt: skip
        under.set_color(self.theme.muted)
        for text in (above, under):
            text.set_in_layout(False)
        top = footer - INCHES.above_legends
        for block in self.below:
            _add_legend(figure, block, top / height)
            top -= block.height
        return figure


def _add_legend(figure: Figure, block: LegendBlock, top: float) -> None:
    names, handles = [name for name, _ in block.entries], [handle for _, handle in block.entries]
    legend = figure.legend(
        handles, names, loc="upper left", bbox_to_anchor=(0, top), ncols=block.columns, fontsize=10.5, borderaxespad=0.1,
        handlelength=1.6, handletextpad=0.5, columnspacing=1.6,
    )  # fmt: skip
    legend.set_in_layout(False)


def middle_of(figure: Figure) -> float:
    """The height of the middle of the panels, as a share of the figure."""
    engine: Any = figure.get_layout_engine()
    _, bottom, _, height = engine.get()["rect"]
    return float(bottom + height / 2)


def grid(panels: int) -> tuple[int, int]:
    """The columns and rows for a number of panels."""
    columns = 1 if panels == 1 else 2 if panels <= 4 else 3
    return columns, math.ceil(panels / columns)


def subplots(
    figure: Figure, rows: int, columns: int, wanted: int, heights: Sequence[float] | None = None
) -> list[Axes]:
    """The first `wanted` panels of a grid. `heights` of the rows are relative to each other; by default they are equal."""
    everywhere = list(figure.subplots(rows, columns, squeeze=False, height_ratios=heights).flat)
    for axes in everywhere[wanted:]:
        axes.remove()
    return everywhere[:wanted]
