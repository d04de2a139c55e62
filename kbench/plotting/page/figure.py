"""A page as a figure: its panels in a grid, and names for everything that was drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from kbench.plotting.page.layout import POINTS, WIDTHS, Keys, Sheet, grid, subplots
from kbench.plotting.page.legend import Key
from kbench.plotting.panels import backdrop, bars, dots, heatmap, labels, lines
from kbench.plotting.selection.pages import Page, Panel
from kbench.plotting.style.look import Look
from kbench.plotting.style.words import alone, describe, wrap

FLATTENED = 4
"""Panels share a scale unless that would press one of them below a quarter of its height."""

WIDE = 24
"""Characters of a name from which on the legend stands below the panels, where it does not take their width."""

MANY_SIZES = 16
"""Columns of a heatmap from which on it is as wide as pictures become."""

TITLE_WIDTHS = {1: 60, 2: 32, 3: 26}
"""Characters of a line of a panel's title, by columns of panels."""


def draw(page: Page, look: Look, titled: Sequence[str], caption: str, *, bars_only: bool = False) -> Figure:
    """Lines, or bars where nothing runs along x. `titled` are the columns that a title names where a page has one value."""
    as_bars = [bars_only or not lines.is_line(panel.points) for panel in page.panels]
    panels = list(zip(page.panels, as_bars, strict=True))
    of_lines = [panel.points for panel, bar in panels if not bar]
    of_bars = [panel.points for panel, bar in panels if bar]
    columns, rows = grid(len(panels))
    many = max((len(bars.bars(points, look)) for points in of_bars), default=0) > dots.MANY
    line = dots.LINE if many else 0.31
    body = rows * max(_height(panel.points, look, columns, line if bar else 0) for panel, bar in panels)
    strip = max(map(lines.strip, of_lines), default=0.0)
    log = any(lines.wants_log(points, look) for points in of_lines)  # one kind of axis on a page
    extents = _shared([lines.extent(points, look, log=log) for points in of_lines], look)
    tops = _shared([bars.extent(points, look) for points in of_bars], look)
    ends = None
    if of_lines and len(panels) == 1:
        height = (body - 0.75) * (1 - strip) * POINTS
        ends = labels.positions(of_lines[0], look, extents[0], height)
    key = Key()
    for points in of_lines:
        key.note_lines(points)
    for points in of_bars:
        key.note_bars(points)
    curves, marks = key.of_curves(look) if not ends else [], key.of_marks(look)
    beside = bool(curves) and max(len(name) for name, _ in curves) <= WIDE
    below = [Keys.across(WIDTHS[columns], entries) for entries in (curves if not beside else [], marks) if entries]
    _, provider = alone(curve for points in of_bars for curve in points["curve"])
    caption += f"\nparameters without a name are those of {provider}" if provider else ""
    if beside:
        body = max(body, 0.235 * len(curves) + 0.4)
    figure = Sheet(columns, body, describe(page.whole(titled)), caption, below, look.theme).figure()
    for axes, (panel, bar) in zip(subplots(figure, rows, columns, len(panels)), panels, strict=True):
        if bar:
            draw_bars, top = (dots.draw if many else bars.draw), tops.pop(0)[1]
            draw_bars(axes, panel.points, look, top)
            peak = backdrop.peak(panel.points, look)
            pad = 17 if peak and peak <= top else None  # the peak's name stands between panel and title
        else:
            lines.draw(axes, panel.points, look, extents.pop(0), strip, room=(12, 7, 5)[columns - 1])
            pad = None
        axes.set_title(wrap(describe(_where(panel, page, look, bar)), TITLE_WIDTHS[columns]), loc="left", pad=pad)
        if ends:
            labels.draw(axes, ends, look)
    if beside:
        names, handles = [name for name, _ in curves], [handle for _, handle in curves]
        figure.legend(handles, names, loc="outside right center", fontsize=11, labelspacing=0.45, handlelength=2.4)
    return figure


def draw_heatmap(page: Page, look: Look, titled: Sequence[str], caption: str, y_name: str) -> Figure:
    """The map of winners of a page, and its legend. Panels stand below each other where names would not fit otherwise."""
    points = [panel.points for panel in page.panels]
    columns, rows = grid(len(points))
    if not all(heatmap.has_room(cells, look, _inner(columns, columns)) for cells in points):
        columns, rows = 1, len(points)
    wide = columns  # as wide as so many columns of panels
    if columns == 1 and max(cells["x"].nunique() for cells in points) > MANY_SIZES:
        wide = max(WIDTHS)
    body = sum(max(1.25, 0.46 * cells["y"].nunique() + 0.85) for cells in points) * rows / len(points)
    body += 0.2 * len(look.paired) * rows
    entries = heatmap.legend(points, look)
    keys, text = [Keys.across(WIDTHS[wide], entries)], f"{caption} · {heatmap.SHADES}"
    figure = Sheet(wide, body, f"fastest: {describe(page.whole(titled))}", text, keys, look.theme).figure()
    for axes, panel in zip(subplots(figure, rows, columns, len(points)), page.panels, strict=True):
        heatmap.draw(axes, panel.points, look, y_name, _inner(wide, columns))
        axes.set_title(describe(panel.where), loc="left")
    return figure


def _inner(wide: int, columns: int) -> float:
    """The width of a heatmap without its labels, in points."""
    return (WIDTHS[wide] / columns - 0.9) * POINTS


def _height(points: pd.DataFrame, look: Look, columns: int, line: float) -> float:
    """Inches for a panel with its title and axis. Bars take so much each; lines are as high as their width is good for."""
    if line:
        return max(1.6, line * len(bars.bars(points, look)) + 0.9)
    return 4.1 if columns == 1 else 3.3


def _where(panel: Panel, page: Page, look: Look, bar: bool) -> dict[str, object]:
    """What a panel shows: bars beside lines stand at one x, which their axis does not name."""
    sizes = panel.points["x"].dropna().unique()
    if bar and look.x not in panel.where and len(sizes) == 1 < page.points["x"].nunique():
        return {**panel.where, look.x: f"{sizes[0]:g}"}
    return panel.where


def _shared(extents: list[tuple[float, float]], look: Look) -> list[tuple[float, float]]:
    """The limits of panels of one kind: the same for all, unless that would flatten one."""
    tops = [top for _, top in extents]
    if any(bottom > 0 for bottom, _ in extents):  # logarithmic
        return extents
    if extents and not look.metric.lower_is_better and max(tops) <= FLATTENED * min(tops):
        return [(0.0, max(tops))] * len(extents)
    return extents
