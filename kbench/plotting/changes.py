"""Pictures of a comparison: the change of every row with its interval, the margin, and the verdict. They run along a size
where there is a sweep, and are a list of rows elsewhere."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbench.analysis.metrics import Metric
from kbench.comparison import report
from kbench.comparison.model import CompareOptions, Comparison
from kbench.comparison.verdict import Verdict
from kbench.errors import ResultsError
from kbench.plotting.names import combination_of, shorten, title_of
from kbench.plotting.pages import Page, Picture, choose_axis, combinations, companions, numbers_of, split_into_pages
from kbench.plotting.scales import ChangeAxis, scale_x
from kbench.plotting.sheet import Grid, finish, make_panels, write_beside
from kbench.plotting.style import ASTERISK, QUESTION_MARK, Theme

MOST_PANELS = 24
"""Of a picture. A sweep that needs more is a list, unless its user chooses the panels."""

FEWEST_SIZES = 3
"""Of a panel of a sweep."""

MOST_LIST_ROWS = 50
"""A longer list has the rows with the largest changes."""

ALARM, GOOD = 1, 2
"""Places in `Theme.colours`: for verdicts that need attention, and for welcome ones. The report uses the same two."""

VERDICT_MARKS: dict[Verdict, tuple[Any, float]] = {
    Verdict.SAME: ("o", 4.0), Verdict.UNCLEAR: ("o", 6.0), Verdict.FAILED: (ASTERISK, 7.0),
    Verdict.MISSING: ("x", 7.0), Verdict.SUSPECT: (QUESTION_MARK, 9.0), Verdict.FIXED: ("*", 9.0), Verdict.NEW: ("P", 6.0),
    Verdict.INCOMPARABLE: ("|", 7.0), Verdict.UNTIMED: ("_", 7.0),
}  # fmt: skip
"""The shape and the size of the marks of verdicts. `slower` and `faster` are triangles."""


@dataclass(frozen=True)
class Change:
    """The change of a row of a comparison.

    where      the columns that say what the row is
    effect     the logarithm of the ratio of new to old, NaN where there is none
    low, high  the ends of its interval
    """

    where: dict[str, Any]
    verdict: Verdict
    effect: float
    low: float
    high: float

    @property
    def drawn(self) -> bool:
        return not math.isnan(self.effect)


@dataclass(frozen=True)
class ChangeStyle:
    """What all panels of a page share. The triangles of `slower` and `faster` point in the direction of the change: up or down,
    or along x if `sideways`."""

    theme: Theme
    axis: ChangeAxis
    options: CompareOptions
    sideways: bool

    @property
    def metric(self) -> Metric:
        return self.options.compared

    @property
    def label(self) -> str:
        """The label of the axis of changes."""
        less, more = ("slower", "faster")[:: self.metric.sign]
        return f"{less}  \N{LEFTWARDS ARROW}  {self.metric.quantity}  \N{RIGHTWARDS ARROW}  {more}"

    def colour(self, verdict: Verdict) -> str:
        if verdict.needs_attention:
            return self.theme.colours[ALARM]
        return self.theme.colours[GOOD] if verdict.welcome else self.theme.quiet

    def mark(self, verdict: Verdict) -> dict[str, Any]:
        """The mark of a verdict, as matplotlib takes it."""
        ink = self.colour(verdict)
        if verdict in (Verdict.SLOWER, Verdict.FASTER):
            more = (verdict is Verdict.FASTER) != self.metric.lower_is_better
            shape, size = ("<>" if self.sideways else "v^")[more], 6.0
        else:
            shape, size = VERDICT_MARKS[verdict]
        face = self.theme.background if verdict is Verdict.UNCLEAR else ink
        edge = {"markerfacecolor": face, "markeredgewidth": 1.3}
        return {"marker": shape, "markersize": size, "color": ink, "linestyle": "", **edge}


def draw_changes(comparison: Comparison, x: str | None, by: Sequence[str], theme: Theme) -> Iterator[Picture]:
    """The pictures of a comparison: sweeps along a size, or a list where there is no sweep. Raises UsageError for an unknown
    axis `x` or column of `by`, ResultsError where no row has a change."""
    axes = list(dict.fromkeys(name for row in comparison.rows for name in row.key.case.axes))
    changes = _changes(comparison, axes)
    if not any(change.drawn for change in changes):
        counts = report.summary(comparison)
        raise ResultsError(
            f"no change to draw: no row has times that can be compared ({counts}); kbench compare shows the reasons"
        )
    columns = ["operator", *axes, "provider", "dtype"]
    along, paired, pages = _pages(changes, axes, columns, x, by)
    files = shorten([comparison.new, comparison.old])
    against = f"{files[comparison.new]} against {files[comparison.old]}"
    for page in pages:
        is_list = len({change.where.get(along) for change in page.points}) < 2
        effects = [change.effect for change in page.points if change.drawn]
        ends = [end for change in page.points for end in (change.low, change.high) if not math.isnan(end)]
        axis = ChangeAxis.of(effects or [0.0], ends, comparison.options.margin)
        style = ChangeStyle(theme, axis, comparison.options, is_list)
        whole = page.whole(columns)
        if is_list:
            names = [column for column in columns if column not in whole] or ["provider"]
            figure = _draw_list(page.points, names, style)
        else:
            figure = _draw_sweeps(page, along, style)
        caption = "\n".join([*_caption(comparison, page.points, style), *paired])
        y_label = "" if is_list else style.label
        title = " · ".join(filter(None, [against, title_of(whole)]))
        finish(figure, title, caption, _legend(page.points, style), theme, y_label)
        yield Picture(combination_of(page.fixed), figure)


def _changes(comparison: Comparison, axes: Sequence[str]) -> list[Change]:
    names = shorten({row.key.configuration_name for row in comparison.rows})
    changes = []
    for row in comparison.rows:
        case = row.key.case
        where: dict[str, Any] = {
            "operator": case.operator,
            "provider": names[row.key.configuration_name],
            "dtype": case.dtype,
        }
        low, high = row.ci or (None, None)
        where |= {name: case.axes.get(name, "") for name in axes}
        changes.append(Change(where, row.verdict, _log(row.ratio), _log(low), _log(high)))
    return changes


def _log(ratio: float | None) -> float:
    return math.log(ratio) if ratio is not None and 0 < ratio < math.inf else math.nan


def _pages(
    changes: Sequence[Change], axes: Sequence[str], columns: Sequence[str], x: str | None, by: Sequence[str]
) -> tuple[str, list[str], list[Page[Change]]]:
    """What runs along x, "" for a list; sentences about the axes that go with it; and the pages."""
    along = choose_axis(numbers_of(changes, axes), x, axes)
    paired = companions(changes, axes, along)
    beside = [name for name in columns if name != along and name not in paired]
    sizes_of_panels = Counter(values[1:] for values in combinations(changes, [along, *beside]))
    is_sweep = along and max(sizes_of_panels.values()) >= FEWEST_SIZES and len(sizes_of_panels) <= MOST_PANELS
    if not is_sweep and x is None and not by:
        return "", [], [Page({}, [""], [list(changes)])]
    return along, list(paired.values()), split_into_pages(changes, beside, by, MOST_PANELS)


def _draw_sweeps(page: Page[Change], x: str, style: ChangeStyle) -> Figure:
    """Panels of a sweep, with the same axes."""
    axis, theme = style.axis, style.theme
    grid = Grid.of(page.titles)
    figure, grid_axes = make_panels(grid, (3.4 if grid.rows == 1 else 2.4) * grid.rows)
    xs = sorted({float(change.where[x]) for change in page.points})
    strip = 0.0 if all(change.drawn for change in page.points) else 0.1
    bottom = axis.low - (axis.high - axis.low) * strip / (1 - strip)
    for axes, panel in zip(grid_axes, page.panels, strict=True):
        scale_x(axes, xs, grid.panel_width)
        axes.set_xlabel(x)
        axes.set_ylim(bottom, axis.high)
        axis.label(axes.yaxis, 7)
        if strip:
            axes.axhline(axis.low, color=theme.quiet, linewidth=0.8, zorder=1)
        sizes = [float(change.where[x]) for change in panel]
        _draw_marks(axes, sizes, panel, style, (bottom + axis.low) / 2)
        for size, change in zip(sizes, panel, strict=True):
            if axis.outside(change.effect):
                place = size, axis.within(change.effect)
                font = {"va": "center", "fontsize": 9, "color": theme.muted}
                write_beside(axes, axis.text(change.effect), place, (6, 0), **font)
    return figure


def _draw_list(changes: Sequence[Change], columns: Sequence[str], style: ChangeStyle) -> Figure:
    """A line per row, the slowest first, with its name before it and its numbers behind. A row without a change has its mark at
    the left, and comes last."""
    shown = sorted(changes, key=lambda change: -abs(change.effect) if change.drawn else math.inf)[:MOST_LIST_ROWS]
    shown.sort(key=lambda change: style.metric.sign * change.effect if change.drawn else math.inf)
    axis, theme = style.axis, style.theme
    figure, [axes] = make_panels(Grid.of([""]), 0.27 * len(shown) + 0.9)
    axes.set_xlim(axis.low, axis.high)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axis.label(axes.xaxis, 7)
    axes.set_xlabel(style.label)
    names = [title_of({name: change.where[name] for name in columns}) for change in shown]
    axes.set_yticks(range(len(shown)), names)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    _draw_marks(axes, range(len(shown)), shown, style, axis.within(-math.inf))
    for place, change in enumerate(shown):
        text = f"{change.verdict}  {axis.text(change.effect)}" if change.drawn else str(change.verdict)
        font = {"va": "center", "fontsize": 10.5, "color": theme.readable(style.colour(change.verdict))}
        write_beside(axes, text, (1, place), (6, 0), ("axes fraction", "data"), **font)
    return figure


def _draw_marks(
    axes: Axes, places: Sequence[float], changes: Sequence[Change], style: ChangeStyle, lost: float
) -> None:
    """Draw the band of the margin, and at their places marks with intervals. A change beyond the axis is drawn at its edge, and
    an interval ends there. Rows without a change have their marks at `lost`."""
    axis, theme = style.axis, style.theme
    span, line, bars = (
        (axes.axvspan, axes.axvline, axes.hlines) if style.sideways else (axes.axhspan, axes.axhline, axes.vlines)
    )
    margin = math.log1p(style.options.margin)
    span(-margin, margin, color=theme.band, linewidth=0, zorder=0)
    line(0, color=theme.quiet, linewidth=1.2, zorder=1)
    for verdict in sorted({change.verdict for change in changes}):
        members = [(place, change) for place, change in zip(places, changes, strict=True) if change.verdict == verdict]
        at = [place for place, _ in members]
        marks = [axis.within(change.effect) if change.drawn else lost for _, change in members]
        axes.plot(*((marks, at) if style.sideways else (at, marks)), zorder=3, **style.mark(verdict))
        intervals = [(place, change.low, change.high) for place, change in members if not math.isnan(change.low)]
        if intervals:
            bounded, *ends = zip(*intervals, strict=True)
            lows, highs = np.clip(ends, axis.low, axis.high)
            bars(bounded, lows, highs, color=style.colour(verdict), linewidth=1.4, alpha=0.75, zorder=2)


def _legend(changes: Sequence[Change], style: ChangeStyle) -> list[Line2D]:
    """Legend entries such as `12 slower`: the verdicts that occur, those that need attention first."""
    counts = Counter(change.verdict for change in changes)
    occurring = [verdict for verdict in Verdict if counts[verdict]]
    return [Line2D([], [], label=f"{counts[verdict]} {verdict}", **style.mark(verdict)) for verdict in occurring]


def _caption(comparison: Comparison, changes: Sequence[Change], style: ChangeStyle) -> Iterator[str]:
    facts = report.facts(comparison)
    sessions = facts.get("sessions")
    yield " · ".join(filter(None, [facts.get("conditions"), sessions and f"sessions: {sessions}"]))
    meaning = [f"shaded: the margin, {comparison.options.margin * 100:g} %", "bars: intervals"]
    if any(style.axis.outside(change.effect) for change in changes):
        meaning.append("changes beyond the axis: at its edge, with their values")
    yield " · ".join(meaning)
    for notes in (list(report.drifts(comparison)), [report.geomean(comparison)]):
        if len(notes) <= 4:
            yield from sorted(notes)
    if style.sideways and len(changes) > MOST_LIST_ROWS:
        few = f"{MOST_LIST_ROWS} of {len(changes)} rows are drawn: those with the largest changes"
        yield f"{few}; kbench compare has all"
