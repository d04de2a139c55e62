"""A comparison as pictures: along a size where there is a sweep, else as a list, or in order where a list is too long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kbench.comparison import Comparison
from kbench.comparison.join import METRICS
from kbench.comparison.presentation import header
from kbench.comparison.presentation.words import quantity
from kbench.errors import ResultsError, UsageError
from kbench.plotting.changes import listing, ranking, sweep
from kbench.plotting.changes.panel import Panels
from kbench.plotting.changes.scale import Scale
from kbench.plotting.changes.table import FILE, PROVIDER, table
from kbench.plotting.changes.verdicts import Looks
from kbench.plotting.page.layout import WIDTHS, Keys, Sheet, grid, middle_of, subplots
from kbench.plotting.selection.pages import Page, Panel, companions, split
from kbench.plotting.style.theme import Theme
from kbench.plotting.style.words import describe, natural_key, shorten, wrap

MOST_PANELS = 24
MOST_PICTURES = 4
"""Where panels do not fit into so many pictures, there are none, unless the reader asks for them."""

MOST_LINES = 50
"""Rows of a list."""

SIZES = 3
"""Values of an axis that make a sweep."""

MOST_NOTES = 4
NAMED = 5
"""Of rows without a name in the picture, so many are named in its caption."""

TITLE_WIDTHS = {1: 70, 2: 46, 3: 40}
"""Characters of a line of a panel's title, by columns of panels."""


@dataclass(frozen=True)
class Changes:
    """What all pages of a comparison share. `x` is what runs along x, "" where there is no sweep; `columns` name a row, and
    `notes` are what is to be said of the axes."""

    comparison: Comparison
    x: str
    columns: list[str]
    notes: list[str]


def pages(comparison: Comparison, x: str | None = None, by: Sequence[str] = ()) -> tuple[Changes, list[Page]]:
    """The pages of a comparison, along the axis `x` where one is named, with a panel for each value of the columns `by`.

    Raises UsageError when there is nothing to draw, or no such axis or column.
    """
    rows, axes, columns = table(comparison)
    if rows.empty or rows["effect"].isna().all():
        counts = header.summary(comparison)
        raise ResultsError(
            f"no row has a time on both sides: there is no change to draw ({counts}); see kbench compare"
        )
    sizes = {axis: rows[axis].nunique() for axis in axes if pd.api.types.is_integer_dtype(rows[axis])}
    if x is not None and x not in sizes:
        known = ", ".join(sizes) or "none that is a number"
        raise UsageError(f"nothing called {x!r} to draw against (--x); there are {known}")
    if unknown := [name for name in by if name not in columns]:
        raise UsageError(f"no column {unknown[0]!r} to make panels of (--by); there are {', '.join(columns)}")
    along = x or max(sizes, key=lambda name: (sizes[name], list(sizes).index(name)), default="")
    paired = companions(rows, axes, along)
    beside = [name for name in columns if name != along and name not in paired]
    of_panel = rows.groupby(beside, dropna=False)[along].nunique().max() if along else 0
    panels = rows[beside].drop_duplicates()
    if len(panels) > MOST_PANELS:  # then pictures are made of what has few values
        beside.sort(key=lambda name: rows[name].nunique(dropna=False))
    if x is None and not by and (of_panel < SIZES or len(panels) > max(MOST_PANELS, _fit(panels[beside]))):
        return Changes(comparison, "", columns, []), [Page({}, [Panel({}, rows)])]
    found = split(rows, beside, by, MOST_PANELS, MOST_PANELS)
    return Changes(comparison, along, columns, list(paired.values())), found


def _fit(panels: pd.DataFrame) -> int:
    """How many panels fit into MOST_PICTURES, one for each value of the first column that varies."""
    counts = [panels[name].nunique(dropna=False) for name in panels]
    varying = [count for count in counts if count > 1]
    return MOST_PANELS * varying[0] if varying and varying[0] <= MOST_PICTURES else 0


def draw(changes: Changes, page: Page, theme: Theme) -> Figure:
    """A page with its legend and caption."""
    rules = changes.comparison.rules
    scale = Scale.of(page.points, rules.margin)
    look = Panels(scale, Looks(theme, METRICS[rules.metric] > 0), quantity(rules.metric).name)
    panels = sorted(page.panels, key=lambda panel: [natural_key(value) for value in panel.where.values()])
    page = Page(page.fixed, panels)
    if changes.x and page.points[changes.x].nunique() > 1:
        return _along_x(changes, page, look)
    if changes.x:  # one size on this page: nothing runs along it
        page = Page(page.fixed, [Panel({}, page.points)])
    return _one_by_one(changes, page, look)


def _along_x(changes: Changes, page: Page, look: Panels) -> Figure:
    """Small panels that share their axes."""
    columns, lines = _grid(page.panels)
    count, rows = len(page.panels), page.points
    height = {1: 3.4, 2: 2.7}.get(lines, 1.8)
    xs = sorted(map(float, rows[changes.x].unique()))
    room = {1: 12, 2: 7, 3: 5}[columns], 7 if lines <= 2 else 5
    figure = _sheet(changes, page, look, columns, lines * height + 0.3).figure()
    if lines > 1:
        figure.supylabel(look.label, fontsize=12).set_y(middle_of(figure))
    for place, (axes, panel) in enumerate(zip(subplots(figure, lines, columns, count), page.panels, strict=True)):
        sweep.draw(axes, panel.points, look, changes.x, xs, room, strip=bool(rows["effect"].isna().any()))
        _label_outside(axes, place, count, columns, look.label if lines == 1 else "", changes.x)
        axes.set_title(
            wrap(describe(panel.where), TITLE_WIDTHS[columns]), loc="left", fontsize=12 if lines == 1 else 11
        )
    return figure


def _one_by_one(changes: Changes, page: Page, look: Panels) -> Figure:
    """A list, or all in order where it would be too long; panels stand below each other."""
    panels = [Panel(panel.where, _ordered(panel.points, look.looks.more_is_better)) for panel in page.panels]
    too_long = max(len(panel.points) for panel in panels) > MOST_LINES
    heights = [3.7 if too_long else listing.LINE * len(panel.points) + 0.9 for panel in panels]
    look = look if too_long else replace(look, looks=replace(look.looks, sideways=True))
    figure = _sheet(changes, page, look, 1, sum(heights), panels if too_long else []).figure()
    whole = page.whole(changes.columns)
    for axes, panel in zip(subplots(figure, len(panels), 1, len(panels)), panels, strict=True):
        if too_long:
            ranking.draw(axes, panel.points[panel.points["effect"].notna()], look)
        else:
            named = [name for name in changes.columns if name not in whole and name not in panel.where]
            listing.draw(axes, panel.points, _names(panel.points, named or [PROVIDER]), look)
        axes.set_title(wrap(describe(panel.where), TITLE_WIDTHS[1]), loc="left")
    return figure


def _sheet(
    changes: Changes, page: Page, look: Panels, columns: int, body: float, unnamed: Sequence[Panel] = ()
) -> Sheet:
    """The paper of a page; in the caption, some rows of panels that name none."""
    counts = {str(word): int(count) for word, count in page.points["word"].value_counts().items()}
    keys = Keys.across(WIDTHS[columns], look.looks.legend(counts))
    text = "\n".join(_caption(changes, page.points, look, unnamed))
    title = _title(changes.comparison, page.whole(changes.columns))
    return Sheet(columns, body, title, text, [keys], look.theme)


def _label_outside(axes: Axes, place: int, count: int, columns: int, y: str, x: str) -> None:
    """Panels of a grid share their axes: only those at its edges say what they show."""
    if place % columns == 0:
        axes.set_ylabel(y)
    else:
        axes.tick_params(labelleft=False)
    if place + columns >= count:
        axes.set_xlabel(x)
    else:
        axes.tick_params(labelbottom=False)


def _ordered(rows: pd.DataFrame, better: bool) -> pd.DataFrame:
    """The slowest first, and whoever has no change last."""
    slowness = -rows["effect"] if better else rows["effect"]
    found: pd.DataFrame = rows.loc[slowness.sort_values(ascending=False, kind="stable", na_position="last").index]
    return found


def _grid(panels: Sequence[Panel]) -> tuple[int, int]:
    """Columns and lines of panels: the values of what varies last run across, where they are few."""
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
    return [describe(row) for row in records]


def _title(comparison: Comparison, whole: dict[str, object]) -> str:
    several, what = len(comparison.contenders) > 1, "providers" if comparison.by == "provider" else "files"
    who = f"{len(comparison.contenders)} {what}" if several else comparison.contenders[0]
    names = shorten([who, comparison.baseline])
    rest = describe({name: value for name, value in whole.items() if name != FILE})
    return f"{names[who]} against {names[comparison.baseline]}" + (f" · {rest}" if rest else "")


def _caption(changes: Changes, rows: pd.DataFrame, look: Panels, unnamed: Sequence[Panel]) -> Iterator[str]:
    comparison = changes.comparison
    facts = dict(header.facts(comparison, {}))
    sessions = facts.get("sessions")
    yield " · ".join(filter(None, [facts.get("conditions"), sessions and f"sessions: {sessions}"]))
    meaning = [f"shaded: the margin, {comparison.rules.margin * 100:g} %", "bars: 95 % intervals"]
    far = any(look.scale.outside(effect) for effect in rows["effect"].dropna())
    yield " · ".join([*meaning, *(["at the edge with its value: a change beyond the axis"] if far else [])])
    yield from changes.notes
    for found in (list(header.drifts(comparison)), list(header.geomeans(comparison))):
        if len(found) <= MOST_NOTES:
            yield from sorted(found)
    for panel in unnamed:
        told = panel.points[panel.points["effect"].notna()]
        for what, few in (("first", told.head(NAMED)), ("last", told.tail(NAMED).iloc[::-1])):
            sizes = [look.scale.value(effect) for effect in few["effect"]]
            names = zip(_names(few, [name for name in changes.columns if rows[name].nunique() > 1]), sizes, strict=True)
            yield f"{what}: {', '.join(f'{name} ({change})' for name, change in names)}"
