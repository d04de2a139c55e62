"""A page as a figure: its panels in a grid, with a legend for all that they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbench.plotting.page.layout import PAGE_WIDTHS, POINTS_PER_INCH, LegendBlock, LegendEntry, Sheet, grid, subplots
from kbench.plotting.page.legend import LegendContents
from kbench.plotting.panels import backdrop, bars, dots, heatmap, labels, lines
from kbench.plotting.panels.look import Look
from kbench.plotting.selection.pages import MOST_BARS, Page, Panel
from kbench.plotting.style.formatting import title_of, without_provider, wrap

FLATTENED = 4
"""Panels share a scale where the highest top is at most this many times the lowest."""

NAME_BESIDE_BARS = {1: 40, 2: 20, 3: 20}
"""The longest name that stands beside its bar, in characters, by columns of panels. Longer ones would take its width."""

NAME_BESIDE_DOTS = {1: 60, 2: 32, 3: 26}
"""The same for dots, whose names are smaller. Where a name is longer, the panels stand below each other."""

NAME_ABOVE_BARS = {1: 80, 2: 46, 3: 38}
"""Characters of a line of a name above its bar, by columns of panels."""

LONGEST_BESIDE = 24
"""A legend with a longer name stands below the panels, because beside them it would take their width."""

MANY_SIZES = 16
"""A heatmap with more columns has the largest page width."""

TITLE_CHARACTERS = {1: 60, 2: 32, 3: 26}
"""Characters of a line of a panel's title, by columns of panels."""

TICK_ROOM = {1: 12, 2: 7, 3: 5}
"""Ticks that fit along x, by columns of panels."""


@dataclass(frozen=True)
class Heights:
    """Heights of panels in inches, each with its title and axis."""

    lines: float = 4.1
    lines_in_columns: float = 3.3
    around_bars: float = 0.9
    least_bars: float = 1.6
    cell: float = 0.46
    around_cells: float = 0.85
    least_cells: float = 1.25
    paired_axis: float = 0.2
    legend_row: float = 0.235
    around_legend: float = 0.4
    around_lines: float = 0.75

    def of(self, panel: pd.DataFrame, look: Look, columns: int, bar: float) -> float:
        """The height of a panel. `bar` is the height of a bar, 0 for a panel of lines."""
        if bar:
            return max(self.least_bars, bar * len(bars.bars(panel, look)) + self.around_bars)
        return self.lines if columns == 1 else self.lines_in_columns

    def of_cells(self, cells: int) -> float:
        """The height of a heatmap with this many cells above each other."""
        return max(self.least_cells, self.cell * cells + self.around_cells)


HEIGHTS = Heights()

PEAK_PAD = 17
"""Distance in points between a panel and its title where the name of the theoretical bandwidth stands between them."""

WIDTH_OF_LABELS = 0.9
"""Of the labels beside a heatmap, in inches."""


def draw(page: Page, look: Look, caption: str, *, bars_only: bool = False) -> Figure:
    """A page of lines. A panel where nothing runs along x has bars, and all panels have them with `bars_only`."""
    as_bars = [bars_only or not lines.is_line(panel.points) for panel in page.panels]
    panels = list(zip(page.panels, as_bars, strict=True))
    of_lines = [panel.points for panel, bar in panels if not bar]
    of_bars = [panel.points for panel, bar in panels if bar]
    look = look if of_lines else look.by_provider()
    many = max((len(bars.bars(points, look)) for points in of_bars), default=0) > MOST_BARS
    names = [name for points in of_bars for name in bars.bar_names(points, look)]
    columns, rows = grid(len(panels))
    if many and max(map(len, names)) > NAME_BESIDE_DOTS[columns]:
        columns, rows = 1, len(panels)
    bar_rows = bars.BarRows.for_names(names, NAME_BESIDE_BARS[columns], NAME_ABOVE_BARS[columns])
    bar_height = dots.ROW_INCHES if many else bar_rows.inches
    body = rows * max(HEIGHTS.of(panel.points, look, columns, bar_height if bar else 0) for panel, bar in panels)
    strip = max(map(lines.strip, of_lines), default=0.0)
    log = any(lines.wants_log(points, look) for points in of_lines)  # the same for all panels of a page
    extents = _shared([lines.extent(points, look, log=log) for points in of_lines], look)
    edges = backdrop.cache_edges(of_lines, look)
    tops = _shared([bars.extent(points, look) for points in of_bars], look)
    ends = None
    if of_lines and len(panels) == 1:
        height = (body - HEIGHTS.around_lines) * (1 - strip) * POINTS_PER_INCH
        ends = labels.positions(of_lines[0], look, extents[0], height)
    contents = LegendContents.of(of_lines, of_bars)
    curves, marks = contents.of_curves(look) if not ends else [], contents.of_marks(look)
    beside = bool(curves) and max(len(name) for name, _ in curves) <= LONGEST_BESIDE
    below = [
        LegendBlock.across(PAGE_WIDTHS[columns], entries)
        for entries in (curves if not beside else [], marks)
        if entries
    ]
    _, provider = without_provider(curve for points in of_bars for curve in points["curve"])
    caption += f"\nconfigurations named only by parameters are those of {provider}" if provider else ""
    if beside:
        body = max(body, HEIGHTS.legend_row * len(curves) + HEIGHTS.around_legend)
    figure = Sheet(columns, body, title_of(page.whole(look.titled)), caption, below, look.theme).figure()
    for axes, (panel, bar) in zip(subplots(figure, rows, columns, len(panels)), panels, strict=True):
        pad = None
        if bar:
            pad = _draw_bars(axes, panel.points, look, tops.pop(0)[1], None if many else bar_rows)
        else:
            lines.draw(axes, panel.points, look, extents.pop(0), strip, TICK_ROOM[columns], edges.pop(0))
        axes.set_title(wrap(title_of(_where(panel, page, look, bar)), TITLE_CHARACTERS[columns]), loc="left", pad=pad)
        if ends:
            labels.draw(axes, ends, look)
    if beside:
        _legend_beside(figure, curves)
    return figure


def draw_heatmap(page: Page, look: Look, caption: str) -> Figure:
    """A page of maps of winners. The panels stand below each other where names would not fit into the cells otherwise."""
    points = [panel.points for panel in page.panels]
    columns, rows = grid(len(points))
    if not all(heatmap.has_room(panel, look, _inner_width(columns, columns)) for panel in points):
        columns, rows = 1, len(points)
    wide = columns  # the page is as wide as one with this many columns
    if columns == 1 and max(panel["x"].nunique() for panel in points) > MANY_SIZES:
        wide = max(PAGE_WIDTHS)
    cells = [max(panel["y"].nunique() for panel in points[i * columns : (i + 1) * columns]) for i in range(rows)]
    body = sum(map(HEIGHTS.of_cells, cells))
    body += HEIGHTS.paired_axis * len(look.paired) * rows
    entries: list[LegendEntry] = [*heatmap.legend(points, look)]
    blocks, text = [LegendBlock.across(PAGE_WIDTHS[wide], entries)], f"{caption} · {heatmap.SHADES}"
    title = f"fastest: {title_of(page.whole(look.titled))}"
    figure = Sheet(wide, body, title, text, blocks, look.theme).figure()
    for axes, panel in zip(subplots(figure, rows, columns, len(points), cells), page.panels, strict=True):
        heatmap.draw(axes, panel.points, look, _inner_width(wide, columns))
        axes.set_title(title_of(panel.where), loc="left")
    return figure


def _draw_bars(axes: Axes, points: pd.DataFrame, look: Look, top: float, rows: bars.BarRows | None) -> float | None:
    """Draw a panel of bars in `rows`, or of dots. Returns the distance of its title in points, None: the usual."""
    if rows:
        bars.draw(axes, points, look, top, rows)
    else:
        dots.draw(axes, points, look, top)
    peak = backdrop.peak(points, look)
    return PEAK_PAD if peak and peak <= top else None


def _legend_beside(figure: Figure, curves: Sequence[LegendEntry]) -> None:
    names, handles = [name for name, _ in curves], [handle for _, handle in curves]
    figure.legend(handles, names, loc="outside right center", fontsize=11, labelspacing=0.45, handlelength=2.4)


def _inner_width(wide: int, columns: int) -> float:
    """The width of a heatmap without its labels, in points."""
    return (PAGE_WIDTHS[wide] / columns - WIDTH_OF_LABELS) * POINTS_PER_INCH


def _where(panel: Panel, page: Page, look: Look, bar: bool) -> dict[str, object]:
    """What the title of a panel says. Bars on a page with lines are at one x, which their axis does not show."""
    sizes = panel.points["x"].dropna().unique()
    if bar and look.x not in panel.where and len(sizes) == 1 < page.points["x"].nunique():
        return {**panel.where, look.x: f"{sizes[0]:g}"}
    return panel.where


def _shared(extents: list[tuple[float, float]], look: Look) -> list[tuple[float, float]]:
    """The limits of panels of one kind: the same for all, unless that would press one of them flat."""
    tops = [top for _, top in extents]
    if any(bottom > 0 for bottom, _ in extents):  # logarithmic
        return extents
    if extents and not look.metric.lower_is_better and max(tops) <= FLATTENED * min(tops):
        return [(0.0, max(tops))] * len(extents)
    return extents
