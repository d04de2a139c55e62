"""The paper that panels are drawn on: title above, keys and small print below, with the room they need.

Sizes are in inches and follow from what is written. Only the panels and the legend beside them are left to matplotlib.
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

from kbench.plotting.style.theme import Theme
from kbench.plotting.style.words import wrap

WIDTHS = {1: 8.0, 2: 10.5, 3: 13.0}
"""By columns of panels."""

TITLE_LINE, CAPTION_LINE, KEY_ROW, EDGE = 0.27, 0.165, 0.22, 0.1
SMALL = 9.0
"""Font size of the caption."""

POINTS = 72
"""Per inch."""

Entry = tuple[str, Artist]


class Settled(ConstrainedLayoutEngine):
    """Matplotlib's layout with rounded places: its solver's last digits differ from one process to the next."""

    def execute(self, fig: Figure) -> Any:
        grids = super().execute(fig)
        for axes in fig.axes:
            bounds = axes.get_position(original=True).bounds
            # `set_position` would take the panel out of the layout, which is made once for each format.
            axes._set_position([round(bound, 6) for bound in bounds])  # type: ignore[attr-defined]
        return grids


@dataclass(frozen=True)
class Keys:
    """Legend entries in so many columns."""

    entries: Sequence[Entry]
    columns: int

    @classmethod
    def across(cls, width: float, entries: Sequence[Entry]) -> Keys:
        """In as many columns as fit into so many inches."""
        longest = max(len(name) for name, _ in entries)
        return cls(entries, max(1, min(len(entries), int(width / (0.088 * longest + 0.55)))))

    @property
    def height(self) -> float:
        return KEY_ROW * -(-len(self.entries) // self.columns) + 0.08


@dataclass(frozen=True)
class Sheet:
    """`body` is the height of the panels. `below` are keys under them, the first on top."""

    columns: int
    body: float
    title: str
    caption: str
    below: Sequence[Keys]
    theme: Theme

    @property
    def width(self) -> float:
        return WIDTHS[self.columns]

    def figure(self) -> Figure:
        """An empty figure, but for the text around its panels."""
        title, caption = wrap(self.title, round(8.2 * self.width)), wrap(self.caption, round(14.5 * self.width))
        header = 0.14 + TITLE_LINE * (title.count("\n") + 1)
        print_height = EDGE + CAPTION_LINE * (caption.count("\n") + 1)
        footer = print_height + sum(keys.height for keys in self.below)
        height = header + self.body + footer
        figure = Figure(figsize=(self.width, height), layout=Settled())
        FigureCanvasAgg(figure)
        engine: Any = figure.get_layout_engine()
        engine.set(rect=(0, footer / height, 1, self.body / height), w_pad=0.06, h_pad=0.06)
        left = EDGE / self.width
        above = figure.suptitle(title, x=left, y=1 - 0.12 / height, ha="left", va="top")
        under = figure.supxlabel(
            caption, x=left, y=0.07 / height, ha="left", va="bottom", fontsize=SMALL, linespacing=1.25
        )
        under.set_color(self.theme.muted)
        for text in (above, under):
            text.set_in_layout(False)
        top = footer - 0.03
        for keys in self.below:
            _add(figure, keys, top / height)
            top -= keys.height
        return figure


def _add(figure: Figure, keys: Keys, top: float) -> None:
    names, handles = [name for name, _ in keys.entries], [handle for _, handle in keys.entries]
    legend = figure.legend(
        handles, names, loc="upper left", bbox_to_anchor=(0, top), ncols=keys.columns, fontsize=10.5, borderaxespad=0.1,
        handlelength=1.6, handletextpad=0.5, columnspacing=1.6,
    )  # fmt: skip
    legend.set_in_layout(False)


def middle_of(figure: Figure) -> float:
    """The height of the middle of the panels, as a share of the figure."""
    engine: Any = figure.get_layout_engine()
    _, bottom, _, height = engine.get()["rect"]
    return float(bottom + height / 2)


def grid(panels: int) -> tuple[int, int]:
    """Columns and rows for so many panels."""
    columns = 1 if panels == 1 else 2 if panels <= 4 else 3
    return columns, math.ceil(panels / columns)


def subplots(figure: Figure, rows: int, columns: int, wanted: int) -> list[Axes]:
    """The first so many panels of a grid."""
    everywhere = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in everywhere[wanted:]:
        axes.remove()
    return everywhere[:wanted]
