"""Pictures of a comparison: the change of every row with its 95 % interval, the margin, and the verdict. They run along a size
where there is a sweep, and are a list of rows elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbench.analysis.files import unclaimed
from kbench.comparison import report
from kbench.comparison.model import Comparison
from kbench.comparison.verdict import Verdict
from kbench.errors import ResultsError, UsageError
from kbench.plotting.along import companions, most_values, no_such_x, numeric
from kbench.plotting.change_axis import ChangeAxis
from kbench.plotting.names import natural_key, shorten, title_of
from kbench.plotting.pages import Page, Panel, split_into_pages
from kbench.plotting.scales import scale_x
from kbench.plotting.sheet import LegendEntry, grid, make_page, panel_width, wrap
from kbench.plotting.style import MARK_SHAPES, QUESTION_MARK, Theme

MOST_PANELS = 24
"""Of a picture."""

MOST_PICTURES = 4
"""Where the panels need more pictures, the rows become a list, unless the user asks for panels."""

LEAST_SIZES = 3
"""Values of an axis that make a sweep."""

MOST_LIST_ROWS = 50
"""A longer list has the rows with the largest changes."""

MOST_NOTES = 4
"""Notes of one kind in the caption. More of them are left out."""

PANEL_INCHES = {1: 3.4, 2: 2.7}
"""Height of a panel of a sweep, by rows of panels. With more rows it is LOW_PANEL_INCHES."""

LOW_PANEL_INCHES, LABEL_INCHES = 1.8, 0.3
"""The second is the height of the label of x below the last row of panels."""

LIST_ROW_INCHES, AROUND_LIST_INCHES = 0.27, 0.9
"""Height of a row of a list, and of its axis."""

STRIP_SHARE = 0.1
"""The height of the strip for rows without a change, as a share of the panel."""

MOST_LARGE_MARKS, SMALL_MARKS = 40, 0.7
"""Panels with more sizes have small marks, of this share of the usual size."""

ARROW_POINTS = 9
"""The length of the arrow at the end of an interval that goes on beyond the axis."""

ALARM, GOOD = 1, 2
"""Places in `Theme.colours`: for verdicts that need attention, and for welcome ones. The report uses the same two."""

SHAPES: dict[str, Any] = {
    "same": "o", "unclear": "o", "failed": MARK_SHAPES["failed"], "missing": "x", "suspect": QUESTION_MARK,
    "fixed": "*", "new": "P", "incomparable": "|", "untimed": "_",
}  # fmt: skip
STROKES = ("failed", "missing", "incomparable", "untimed")
"""Verdicts with a mark made of strokes, which has no face to fill."""

MARK_SIZES = {"same": 5.0, "unclear": 6.0, "fixed": 9.5, "suspect": 9.0}
MARK_SIZE = 7.0


@dataclass(frozen=True)
class ChangeStyle:
    """What all panels of a page share. `quantity` is what changes: time, speed, ... The triangles of `slower` and `faster`
    point in the direction of the change: up or down, or along x if `sideways`."""

    theme: Theme
    axis: ChangeAxis
    margin: float
    quantity: str
    more_is_better: bool
    sideways: bool = False

    @property
    def label(self) -> str:
        """The label of the axis of changes."""
        ends = ("slower", "faster") if self.more_is_better else ("faster", "slower")
        return f"{ends[0]}  \N{LEFTWARDS ARROW}  {self.quantity}  \N{RIGHTWARDS ARROW}  {ends[1]}"

    def colour(self, word: str) -> str:
        """The colour of a verdict."""
        if Verdict(word).needs_attention:
            return self.theme.colours[ALARM]
        return self.theme.colours[GOOD] if Verdict(word).welcome else self.theme.quiet

    def mark(self, word: str, scale: float = 1.0) -> dict[str, Any]:
        """The mark of a verdict, as matplotlib takes it."""
        ink = self.colour(word)
        if word in ("slower", "faster"):
            more = (word == "faster") == self.more_is_better
            shape: Any = (">" if more else "<") if self.sideways else ("^" if more else "v")
        else:
            shape = SHAPES[word]
        return {
            "marker": shape,
            "markersize": MARK_SIZES.get(word, MARK_SIZE) * scale,
            "color": ink,
            "markerfacecolor": self.theme.background if word == "unclear" else ink,
            "markeredgecolor": ink,
            "markeredgewidth": 1.8 if word in STROKES else 1.3 if word == "unclear" else 0.0,
            "linestyle": "",
        }


@dataclass(frozen=True)
class Rows:
    """The rows of a comparison as a table, and the columns that identify a row, the outermost first.

    word       the verdict
    effect     the logarithm of the ratio of new to old, NaN where there is none
    low, high  the ends of its 95 % interval
    """

    table: pd.DataFrame
    axes: list[str]

    @classmethod
    def of(cls, comparison: Comparison) -> Rows:
        axes = unclaimed(list(dict.fromkeys(name for row in comparison.rows for name, _ in row.key.axes)))
        names = shorten({row.key.configuration_name for row in comparison.rows})
        rows = [
            {
                "operator": row.key.operator,
                "provider": names[row.key.configuration_name],
                "dtype": row.key.dtype,
                **{axes[name]: value for name, value in row.key.axes},
                "word": row.verdict.value,
                "effect": _log(row.ratio),
                "low": _log(row.ci[0] if row.ci else None),
                "high": _log(row.ci[1] if row.ci else None),
                "kind": "value",
            }
            for row in comparison.rows
        ]
        return cls(pd.DataFrame(rows), list(axes.values()))

    @property
    def columns(self) -> list[str]:
        return ["operator", *self.axes, "provider", "dtype"]


def _log(ratio: float | None) -> float:
    return math.log(ratio) if ratio is not None and 0 < ratio < math.inf else math.nan


def draw_changes(
    comparison: Comparison, x: str | None, by: Sequence[str], theme: Theme
) -> Iterator[tuple[Page, Figure]]:
    """The pages of a comparison: sweeps along a size, or a list where there is no sweep.

    `x` chooses the axis and `by` the columns whose values become panels. Raises UsageError for an unknown axis or column,
    ResultsError where no row has a change.
    """
    rows = Rows.of(comparison)
    if rows.table.empty or rows.table["effect"].isna().all():
        counts = report.summary(comparison)
        raise ResultsError(
            f"no change to draw: no row has times that can be compared ({counts}); kbench compare shows the reasons"
        )
    along, paired, pages = _pages(rows, x, by)
    options = comparison.options
    for page in pages:
        axis = ChangeAxis.of(page.points, options.margin)
        name, more_is_better = options.compared.quantity, not options.compared.lower_is_better
        sweep = bool(along) and page.points[along].nunique() > 1
        style = ChangeStyle(theme, axis, math.log1p(options.margin), name, more_is_better, not sweep)
        whole = page.whole(rows.columns)
        title = _title(comparison, whole)
        text = [*_caption(comparison, page.points, style), *paired]
        if sweep:
            yield page, _draw_sweeps(page, along, style, title, text)
        else:
            names = [column for column in rows.columns if column not in whole] or ["provider"]
            yield page, _draw_list(page.points, names, style, title, text)


def _pages(rows: Rows, x: str | None, by: Sequence[str]) -> tuple[str, list[str], list[Page]]:
    """What runs along x, "" for a list; sentences about the axes that go with it; and the pages."""
    table = rows.table
    sizes = {axis: int(table[axis].nunique()) for axis in numeric(table, rows.axes)}
    if x is not None and x not in sizes:
        raise no_such_x(x, rows.axes, list(sizes))
    if strange := [name for name in by if name not in rows.columns]:
        raise UsageError(f"--by: unknown column {strange[0]!r}; choose from {', '.join(rows.columns)}")
    along = x or most_values(table, sizes)
    paired = companions(table, rows.axes, along)
    beside = [name for name in rows.columns if name != along and name not in paired]
    of_panel = table.groupby(beside, dropna=False)[along].nunique().max() if along else 0
    panels = table[beside].drop_duplicates()
    if len(panels) > MOST_PANELS:  # columns with few values make the pictures
        beside.sort(key=lambda name: table[name].nunique(dropna=False))
    varying = [count for name in beside if (count := panels[name].nunique(dropna=False)) > 1]
    room = MOST_PANELS * varying[0] if varying and varying[0] <= MOST_PICTURES else MOST_PANELS
    if x is None and not by and (of_panel < LEAST_SIZES or len(panels) > room):
        return "", [], [Page({}, [Panel({}, table)])]
    return along, list(paired.values()), split_into_pages(table, beside, by, MOST_PANELS, MOST_PANELS)


def _draw_sweeps(page: Page, x: str, style: ChangeStyle, title: str, text: Sequence[str]) -> Figure:
    """Panels of a sweep that share their axes. Only those at the edges of the grid have labels."""
    panels = sorted(page.panels, key=lambda panel: [natural_key(value) for value in panel.where.values()])
    columns, lines = _grid(panels)
    points = page.points
    xs = sorted(map(float, points[x].unique()))
    body = PANEL_INCHES.get(lines, LOW_PANEL_INCHES) * lines + LABEL_INCHES
    figure, grid_axes = make_page(
        len(panels), columns, body, title, "\n".join(text), [_legend(points, style)], style.theme,
        y_label=style.label if lines > 1 else "",
    )  # fmt: skip
    strip = STRIP_SHARE if points["effect"].isna().any() else 0.0
    for place, (axes, panel) in enumerate(zip(grid_axes, panels, strict=True)):
        scale_x(axes, xs, panel_width(columns))
        _draw_axis(axes, style, 7 if lines <= 2 else 5, strip)
        _draw_points(axes, panel.points, x, style, 1.0 if len(xs) <= MOST_LARGE_MARKS else SMALL_MARKS)
        axes.tick_params(labelleft=place % columns == 0, labelbottom=place + columns >= len(panels))
        axes.set_ylabel(style.label if lines == 1 and place == 0 else "")
        axes.set_xlabel(x if place + columns >= len(panels) else "")
        size = 12 if lines == 1 else 11
        axes.set_title(wrap(title_of(panel.where), panel_width(columns), size), loc="left", fontsize=size)
    return figure


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


def _draw_axis(axes: Axes, style: ChangeStyle, ticks: int, strip: float) -> None:
    """Make y the axis of changes, with the band of the margin, above a strip that takes this share of the height."""
    axis = style.axis
    axes.set_ylim(axis.low - (axis.high - axis.low) * strip / (1 - strip), axis.high)
    axis.label(axes.yaxis, ticks)
    axes.axhspan(-style.margin, style.margin, color=style.theme.band, linewidth=0, zorder=0)
    axes.axhline(0, color=style.theme.quiet, linewidth=1.2, zorder=1)
    if strip:
        axes.axhline(axis.low, color=style.theme.quiet, linewidth=0.8, zorder=1)


def _draw_points(axes: Axes, rows: pd.DataFrame, x: str, style: ChangeStyle, scale: float) -> None:
    """Draw marks with intervals at their sizes. A change beyond the axis is drawn at its edge, with its value. An interval that
    goes on beyond the axis ends in an arrow. Rows without a change are marks in the strip below."""
    axis = style.axis
    for (word, changed), group in rows.groupby(["word", rows["effect"].notna()]):
        ink, sizes = style.colour(str(word)), group[x].astype("float64")
        marker = style.mark(str(word), scale)
        if not changed:
            heights = [STRIP_SHARE / 2] * len(group)
            axes.plot(sizes, heights, transform=axes.get_xaxis_transform(), zorder=3, **marker)
            continue
        lows, highs = group["low"].clip(lower=axis.low), group["high"].clip(upper=axis.high)
        axes.vlines(sizes, lows, highs, color=ink, linewidth=1.3 * scale, alpha=0.75, zorder=2)
        axes.plot(sizes, group["effect"].map(axis.within), zorder=3, **marker)
        for place, effect, low, high in zip(sizes, group["effect"], group["low"], group["high"], strict=True):
            for edge, back in axis.cut_ends(low, high):
                _draw_arrow(axes, (place, edge), (0, back * ARROW_POINTS), ink)
            if axis.outside(effect):
                axes.annotate(
                    axis.text(effect), (place, axis.within(effect)), (6, 0), "data", "offset points", va="center",
                    fontsize=9, color=style.theme.muted,
                )  # fmt: skip


def _draw_list(
    rows: pd.DataFrame, columns: Sequence[str], style: ChangeStyle, title: str, text: Sequence[str]
) -> Figure:
    """A line per row, the slowest first, with its name before it and its numbers behind. A row without a change has its mark at
    the left, and comes last."""
    axis, theme = style.axis, style.theme
    largest = rows["effect"].abs().sort_values(ascending=False, kind="stable", na_position="last").index
    shown = rows.loc[largest[:MOST_LIST_ROWS]]
    slowness = -shown["effect"] if style.more_is_better else shown["effect"]
    shown = shown.loc[slowness.sort_values(ascending=False, kind="stable", na_position="last").index]
    if len(shown) < len(rows):
        more = f"{len(shown)} of {len(rows)} rows are drawn: those with the largest changes; kbench compare has all"
        text = [*text, more]
    records: list[Any] = shown[list(columns)].to_dict("records")
    height = LIST_ROW_INCHES * len(shown) + AROUND_LIST_INCHES
    figure, [axes] = make_page(1, 1, height, title, "\n".join(text), [_legend(rows, style)], theme)
    axes.set_xlim(axis.low, axis.high)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axis.label(axes.xaxis, 7)
    axes.set_xlabel(style.label)
    axes.set_yticks(range(len(shown)), [title_of(row) for row in records])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.axvspan(-style.margin, style.margin, color=theme.band, linewidth=0, zorder=0)
    axes.axvline(0, color=theme.quiet, linewidth=1.2, zorder=1)
    for place, (word, effect, low, high) in enumerate(shown[["word", "effect", "low", "high"]].itertuples(index=False)):
        ink, changed = style.colour(word), not math.isnan(effect)
        if changed:
            axes.hlines(place, max(low, axis.low), min(high, axis.high), color=ink, linewidth=1.6, alpha=0.75, zorder=2)
            for edge, back in axis.cut_ends(low, high):
                _draw_arrow(axes, (edge, place), (back * ARROW_POINTS, 0), ink)
        axes.plot([axis.within(effect if changed else -math.inf)], [place], zorder=3, **style.mark(word))
        axes.annotate(
            f"{word}  {axis.text(effect)}" if changed else word, (1, place), (6, 0), ("axes fraction", "data"),
            "offset points", va="center", fontsize=10.5, color=theme.readable(ink), annotation_clip=False,
        )  # fmt: skip
    return figure


def _draw_arrow(axes: Axes, end: tuple[float, float], back: tuple[float, float], ink: str) -> None:
    """Draw an arrow to a place at the edge, from a place that lies `back` from there, in points."""
    form = {"arrowstyle": "->", "color": ink, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, back, "data", "offset points", arrowprops=form)


def _legend(rows: pd.DataFrame, style: ChangeStyle) -> list[LegendEntry]:
    """Legend entries such as `12 slower`: the verdicts that occur, those that need attention first."""
    counts = rows["word"].value_counts()
    return [
        (f"{counts[word]} {word}", Line2D([], [], **style.mark(word.value)))
        for word in Verdict
        if word.value in counts.index
    ]


def _title(comparison: Comparison, whole: dict[str, object]) -> str:
    names = shorten([comparison.new, comparison.old])
    rest = title_of(whole)
    return f"{names[comparison.new]} against {names[comparison.old]}" + (f" · {rest}" if rest else "")


def _caption(comparison: Comparison, rows: pd.DataFrame, style: ChangeStyle) -> Iterator[str]:
    facts = report.facts(comparison)
    sessions = facts.get("sessions")
    yield " · ".join(filter(None, [facts.get("conditions"), sessions and f"sessions: {sessions}"]))
    meaning = [f"shaded: the margin, {comparison.options.margin * 100:g} %", "bars: 95 % intervals"]
    if any(style.axis.outside(effect) for effect in rows["effect"].dropna()):
        meaning.append("changes beyond the axis: at its edge, with their values")
    if any(style.axis.cut_ends(low, high) for low, high in zip(rows["low"], rows["high"], strict=True)):
        meaning.append("arrows: the interval goes on beyond the axis")
    yield " · ".join(meaning)
    for notes in (list(report.drifts(comparison, beside_values=False)), [report.geomean(comparison)]):
        if len(notes) <= MOST_NOTES:
            yield from sorted(notes)
