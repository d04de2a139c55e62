"""Panels of changes in three forms: along a size, as a list, or in order where a list would be too long."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from kbench.plotting.changes.axis import ChangeAxis
from kbench.plotting.changes.marks import VerdictMarks
from kbench.plotting.panels.scale import scale_x
from kbench.plotting.style.theme import Theme, mix

STRIP_SHARE = 0.1
"""The height of the strip for rows without a change, as a share of the panel."""

MOST_LARGE_MARKS = 40
"""Panels with more sizes have small marks."""

SMALL_MARKS = 0.7
"""The size of small marks, as a share of the usual size."""

ARROW_POINTS = 9
"""The length of the arrow at the end of an interval that goes on beyond the axis."""

LIST_ROW_INCHES = 0.27
"""Height of a row of a list."""


@dataclass(frozen=True)
class ChangeStyle:
    """What all panels of a page share. `quantity` is what changes: time, speed, ..."""

    axis: ChangeAxis
    marks: VerdictMarks
    quantity: str

    @property
    def theme(self) -> Theme:
        return self.marks.theme

    @property
    def label(self) -> str:
        """The label of the axis of changes."""
        ends = ("slower", "faster") if self.marks.more_is_better else ("faster", "slower")
        return f"{ends[0]}  \N{LEFTWARDS ARROW}  {self.quantity}  \N{RIGHTWARDS ARROW}  {ends[1]}"

    @property
    def band(self) -> str:
        """The colour of the margin."""
        return mix(self.theme.background, self.theme.quiet, 0.2)

    def scaled(self, size: float) -> ChangeStyle:
        """The same with marks of another size."""
        return replace(self, marks=replace(self.marks, scale=size))


def draw_sweep(
    axes: Axes, rows: pd.DataFrame, style: ChangeStyle, x: str, xs: list[float], ticks: tuple[int, int], *, strip: bool
) -> None:
    """Draw rows over their sizes. `xs` are the sizes of all panels, `ticks` how many ticks fit along x and along y.

    Rows without a change are marks in a strip below.
    """
    scale_x(axes, xs, ticks[0])
    _draw_axis(axes, style, ticks[1], STRIP_SHARE if strip else 0.0)
    style = style.scaled(1.0 if len(xs) <= MOST_LARGE_MARKS else SMALL_MARKS)
    told, lost = rows[rows["effect"].notna()], rows[rows["effect"].isna()]
    _draw_points(axes, told[x].astype("float64"), told, style)
    for word, group in lost.groupby("word"):
        at, transform = [STRIP_SHARE / 2] * len(group), axes.get_xaxis_transform()
        axes.plot(group[x].astype("float64"), at, transform=transform, zorder=3, **style.marks.mark(str(word)))


def draw_in_order(axes: Axes, rows: pd.DataFrame, style: ChangeStyle) -> None:
    """Draw rows from left to right in their order. All of them have a change."""
    _draw_axis(axes, style, ticks=8)
    axes.set_xlim(-0.02 * len(rows), 1.02 * len(rows))
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.grid(visible=False, axis="x")
    axes.set_ylabel(style.label)
    axes.set_xlabel("rows in the order of their changes")
    places = pd.Series(range(1, len(rows) + 1), rows.index, dtype="float64")
    _draw_points(axes, places, rows, style.scaled(SMALL_MARKS))


def draw_list(axes: Axes, rows: pd.DataFrame, names: Sequence[str], style: ChangeStyle) -> None:
    """Draw a line per row, with its name before it and its numbers behind. A row without a change has its mark at the left."""
    axis, theme, marks = style.axis, style.theme, style.marks
    axes.set_xlim(axis.low, axis.high)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    places, texts = axis.ticks(7)
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.set_xticklabels(texts)
    axes.set_xlabel(style.label)
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.axvspan(-axis.margin, axis.margin, color=style.band, linewidth=0, zorder=0)
    axes.axvline(0, color=theme.quiet, linewidth=1.2, zorder=1)
    for place, (word, effect, low, high) in enumerate(rows[["word", "effect", "low", "high"]].itertuples(index=False)):
        ink, known = marks.colour(word), not math.isnan(effect)
        if known:
            axes.hlines(place, max(low, axis.low), min(high, axis.high), color=ink, linewidth=1.6, alpha=0.75, zorder=2)
            for edge, back in axis.cut_ends(low, high):
                _draw_arrow(axes, (edge, place), (back * ARROW_POINTS, 0), ink)
        axes.plot([axis.within(effect if known else -math.inf)], [place], zorder=3, **marks.mark(word))
        axes.annotate(
            f"{word}  {axis.change_text(effect)}" if known else word, (1, place), (6, 0), ("axes fraction", "data"),
            "offset points", va="center", fontsize=10.5, color=theme.readable(ink), annotation_clip=False,
        )  # fmt: skip


def _draw_axis(axes: Axes, style: ChangeStyle, ticks: int, strip: float = 0.0) -> None:
    """Make y the axis of changes, with the band of the margin, above a strip that takes this share of the height."""
    axis = style.axis
    axes.set_ylim(axis.low - (axis.high - axis.low) * strip / (1 - strip), axis.high)
    places, texts = axis.ticks(ticks)
    axes.yaxis.set_major_locator(FixedLocator(places))
    axes.set_yticklabels(texts)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.axhspan(-axis.margin, axis.margin, color=style.band, linewidth=0, zorder=0)
    axes.axhline(0, color=style.theme.quiet, linewidth=1.2, zorder=1)
    if strip:
        axes.axhline(axis.low, color=style.theme.quiet, linewidth=0.8, zorder=1)


def _draw_points(axes: Axes, places: pd.Series[float], rows: pd.DataFrame, style: ChangeStyle) -> None:
    """Draw marks with intervals at their places along x. A change beyond the axis is drawn at its edge, with its value. An
    interval that goes on beyond the axis ends in an arrow."""
    axis, marks = style.axis, style.marks
    shown = rows["effect"].map(axis.within)
    width = 1.3 * marks.scale
    for word, group in rows.groupby("word"):
        ink, at = marks.colour(str(word)), places[group.index]
        lows, highs = group["low"].clip(lower=axis.low), group["high"].clip(upper=axis.high)
        axes.vlines(at, lows, highs, color=ink, linewidth=width, alpha=0.75, zorder=2)
        axes.plot(at, shown[group.index], zorder=3, **marks.mark(str(word)))
        for place, low, high in zip(at, group["low"], group["high"], strict=True):
            for edge, back in axis.cut_ends(low, high):
                _draw_arrow(axes, (place, edge), (0, back * ARROW_POINTS), ink)
    for place, effect in zip(places, rows["effect"], strict=True):
        if axis.outside(effect):
            axes.annotate(
                axis.change_text(effect), (place, axis.within(effect)), (6, 0), "data", "offset points",
                va="center", fontsize=9, color=style.theme.muted,
            )  # fmt: skip


def _draw_arrow(axes: Axes, end: tuple[float, float], back: tuple[float, float], ink: str) -> None:
    """Draw an arrow to a place at the edge, from a place that lies `back` from there, in points."""
    form = {"arrowstyle": "->", "color": ink, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, back, "data", "offset points", arrowprops=form)
