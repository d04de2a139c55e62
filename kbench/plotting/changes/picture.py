"""A page of a comparison as a figure: along a size where there is a sweep, else as a list or in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbench.comparison import report
from kbench.comparison.model import Comparison
from kbench.plotting.changes import panels as forms
from kbench.plotting.changes.axis import ChangeAxis
from kbench.plotting.changes.marks import VerdictMarks
from kbench.plotting.changes.pages import Changes
from kbench.plotting.changes.panels import ChangeStyle
from kbench.plotting.changes.rows import FILE_COLUMN, PROVIDER_COLUMN
from kbench.plotting.page.layout import PAGE_WIDTHS, LegendBlock, Sheet, grid, middle_of, subplots
from kbench.plotting.selection.pages import Page, Panel
from kbench.plotting.style.formatting import natural_key, shorten, title_of, wrap
from kbench.plotting.style.theme import Theme

MOST_LIST_ROWS = 50
"""A list with more rows would be too long: they are drawn in order, without their names."""

MOST_NOTES = 4
"""Notes of one kind in the caption. More of them are left out."""

NAMED_ROWS = 5
"""The caption names this many rows at each end where the picture names none."""

CHANGE_TITLE_CHARACTERS = {1: 70, 2: 46, 3: 40}
"""Characters of a line of a panel's title, by columns of panels."""

TICKS_ALONG = {1: 12, 2: 7, 3: 5}
"""Ticks that fit along x, by columns of panels."""

PANEL_INCHES = {1: 3.4, 2: 2.7}
"""Height of a panel of a sweep, by rows of panels. With more rows it is LOW_PANEL_INCHES."""

LOW_PANEL_INCHES = 1.8
LABEL_INCHES = 0.3
"""Height of the label of x below the last row of panels."""

ORDER_INCHES = 3.7
"""Height of a panel of rows in order."""

AROUND_LIST_INCHES = 0.9
"""Height of the title and axis of a list."""


def draw(changes: Changes, page: Page, theme: Theme) -> Figure:
    """A page with its legend and caption."""
    options = changes.comparison.options
    axis = ChangeAxis.of(page.points, options.margin)
    style = ChangeStyle(axis, VerdictMarks(theme, not options.compared.lower_is_better), options.compared.quantity)
    panels = sorted(page.panels, key=lambda panel: [natural_key(value) for value in panel.where.values()])
    page = Page(page.fixed, panels)
    if changes.x and page.points[changes.x].nunique() > 1:
        return _along_x(changes, page, style)
    if changes.x:  # all rows of this page have one size
        page = Page(page.fixed, [Panel({}, page.points)])
    return _one_by_one(changes, page, style)


def _along_x(changes: Changes, page: Page, style: ChangeStyle) -> Figure:
    """Panels of a sweep that share their axes."""
    columns, lines = _grid(page.panels)
    count, rows = len(page.panels), page.points
    height = PANEL_INCHES.get(lines, LOW_PANEL_INCHES)
    xs = sorted(map(float, rows[changes.x].unique()))
    ticks = TICKS_ALONG[columns], 7 if lines <= 2 else 5
    figure = _sheet(changes, page, style, columns, lines * height + LABEL_INCHES).figure()
    if lines > 1:
        figure.supylabel(style.label, fontsize=12).set_y(middle_of(figure))
    for place, (axes, panel) in enumerate(zip(subplots(figure, lines, columns, count), page.panels, strict=True)):
        forms.draw_sweep(axes, panel.points, style, changes.x, xs, ticks, strip=bool(rows["effect"].isna().any()))
        _label_outside(axes, place, count, columns, style.label if lines == 1 else "", changes.x)
        axes.set_title(
            wrap(title_of(panel.where), CHANGE_TITLE_CHARACTERS[columns]), loc="left", fontsize=12 if lines == 1 else 11
        )
    return figure


def _one_by_one(changes: Changes, page: Page, style: ChangeStyle) -> Figure:
    """Panels below each other: lists, or rows in order where a list would be too long."""
    panels = [Panel(panel.where, _ordered(panel.points, style.marks.more_is_better)) for panel in page.panels]
    too_long = max(len(panel.points) for panel in panels) > MOST_LIST_ROWS
    heights = [
        ORDER_INCHES if too_long else forms.LIST_ROW_INCHES * len(panel.points) + AROUND_LIST_INCHES for panel in panels
    ]
    style = style if too_long else replace(style, marks=replace(style.marks, sideways=True))
    figure = _sheet(changes, page, style, 1, sum(heights), panels if too_long else []).figure()
    whole = page.whole(changes.columns)
    for axes, panel in zip(subplots(figure, len(panels), 1, len(panels)), panels, strict=True):
        if too_long:
            forms.draw_in_order(axes, panel.points[panel.points["effect"].notna()], style)
        else:
            named = [name for name in changes.columns if name not in whole and name not in panel.where]
            forms.draw_list(axes, panel.points, _names(panel.points, named or [PROVIDER_COLUMN]), style)
        axes.set_title(wrap(title_of(panel.where), CHANGE_TITLE_CHARACTERS[1]), loc="left")
    return figure


def _sheet(
    changes: Changes, page: Page, style: ChangeStyle, columns: int, body: float, unnamed: Sequence[Panel] = ()
) -> Sheet:
    """The sheet of a page. Its caption names some rows of the panels in `unnamed`, which do not name theirs."""
    counts = {str(word): int(count) for word, count in page.points["word"].value_counts().items()}
    block = LegendBlock.across(PAGE_WIDTHS[columns], style.marks.legend(counts))
    text = "\n".join(_caption(changes, page.points, style, unnamed))
    title = _title(changes.comparison, page.whole(changes.columns))
    return Sheet(columns, body, title, text, [block], style.theme)


def _label_outside(axes: Axes, place: int, count: int, columns: int, y: str, x: str) -> None:
    """Label only the panels at the edges of a grid, because all panels share their axes."""
    if place % columns == 0:
        axes.set_ylabel(y)
    else:
        axes.tick_params(labelleft=False)
    if place + columns >= count:
        axes.set_xlabel(x)
    else:
        axes.tick_params(labelbottom=False)


def _ordered(rows: pd.DataFrame, better: bool) -> pd.DataFrame:
    """The slowest first, rows without a change last."""
    slowness = -rows["effect"] if better else rows["effect"]
    found: pd.DataFrame = rows.loc[slowness.sort_values(ascending=False, kind="stable", na_position="last").index]
    return found


def _grid(panels: Sequence[Panel]) -> tuple[int, int]:
    """Columns and rows of panels. The values of the last column that varies run across where there are two or three."""
    count = len(panels)
    if count <= 3:
        return count, 1
    last = list(panels[0].where)[-1:]
    across = len({panel.where[name] for panel in panels for name in last})
    if across in (2, 3) and count % across == 0:
        return across, count // across
    return grid(count)


def _names(rows: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    records: list[Any] = rows[list(columns)].to_dict("records")
    return [title_of(row) for row in records]


def _title(comparison: Comparison, whole: dict[str, object]) -> str:
    names = shorten([comparison.new, comparison.old])
    rest = title_of({name: value for name, value in whole.items() if name != FILE_COLUMN})
    return f"{names[comparison.new]} against {names[comparison.old]}" + (f" · {rest}" if rest else "")


def _caption(changes: Changes, rows: pd.DataFrame, style: ChangeStyle, unnamed: Sequence[Panel]) -> Iterator[str]:
    comparison = changes.comparison
    facts = dict(report.facts(comparison, {}))
    sessions = facts.get("sessions")
    yield " · ".join(filter(None, [facts.get("conditions"), sessions and f"sessions: {sessions}"]))
    meaning = [f"shaded: the margin, {comparison.options.margin * 100:g} %", "bars: 95 % intervals"]
    far = any(style.axis.outside(effect) for effect in rows["effect"].dropna())
    cut = any(style.axis.cut_ends(low, high) for low, high in zip(rows["low"], rows["high"], strict=True))
    more = ["changes beyond the axis: at its edge, with their values"] if far else []
    more += ["arrows: the interval goes on beyond the axis"] if cut else []
    yield " · ".join([*meaning, *more])
    yield from changes.notes
    for found in (list(report.drifts(comparison, beside_values=False)), [report.geomean(comparison)]):
        if len(found) <= MOST_NOTES:
            yield from sorted(found)
    for panel in unnamed:
        told = panel.points[panel.points["effect"].notna()]
        for what, few in (("first", told.head(NAMED_ROWS)), ("last", told.tail(NAMED_ROWS).iloc[::-1])):
            sizes = [style.axis.change_text(effect) for effect in few["effect"]]
            names = zip(_names(few, [name for name in changes.columns if rows[name].nunique() > 1]), sizes, strict=True)
            yield f"{what}: {', '.join(f'{name} ({change})' for name, change in names)}"
