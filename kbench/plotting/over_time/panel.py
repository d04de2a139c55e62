"""A panel of a history: the change of the time of each provider since its first level, with numbered events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from kbench.history.timeline import RunPoint, Series
from kbench.plotting.changes.axis import ChangeAxis
from kbench.plotting.over_time.pages import HistoryEvent, HistoryPanel
from kbench.plotting.over_time.time_axis import TimeAxis
from kbench.plotting.panels.labels import spread
from kbench.plotting.panels.marks import row_mark
from kbench.plotting.selection.points import DECLINED, FAILED
from kbench.plotting.style.colours import Style
from kbench.plotting.style.formatting import four_digits
from kbench.plotting.style.theme import Theme

LEAST_REACH = math.log(1.04)
"""y reaches at least so far to both sides, so that noise does not look like a change."""

SHOWN_SHARE = 0.98
"""y reaches this share of the points. The others are drawn at its edge."""

LOST_ROW = 0.07
"""The height of a row of marks for runs without a time, as a share of the panel."""

MOST_OF_LOST = 0.35
"""The most that all these rows take together."""

MOST_END_LABELS = 8
"""With more providers, their present times do not fit beside the panel."""

MOST_VECTOR_DOTS = 200
"""The dots of a longer line are pixels in an SVG or PDF, which would become too large otherwise."""

FEW_RUNS = 15
"""Up to this many runs have large dots."""

NUMBER_POINTS = 15.0
"""The width and the height that the number of an event needs, in points."""

DATE_SIZE = 10.0
"""Font size of ticks, in points: dates are long, and panels are narrow."""

TITLE_PAD = 7.0
"""Distance of the title from what is below it, in points."""


@dataclass(frozen=True)
class PanelStyle:
    """What all panels of a page share. `width` and `height` are those of the axes, roughly, in points."""

    theme: Theme
    styles: Mapping[str, Style]
    time: TimeAxis
    margin: float
    ticks: int
    width: float
    height: float


def draw_panel(axes: Axes, panel: HistoryPanel, style: PanelStyle, title: str) -> None:
    """Draw a case. `title` stands above the numbers of the events."""
    timed = [each for each in panel.series if each.timed]
    reach = _reach(timed, style.margin)
    strip = _draw_strip(axes, panel.series, style)
    style.time.draw(axes, style.ticks)
    span = reach.high - reach.low
    axes.set_ylim(reach.low - span * strip / (1 - strip), reach.high)
    positions, texts = reach.ticks(6)
    axes.yaxis.set_major_locator(FixedLocator(positions))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticklabels(texts)
    for each in timed:
        _draw_series(axes, each, style, reach)
    _draw_times(axes, timed, style, span / (1 - strip))
    axes.tick_params(labelsize=DATE_SIZE)
    rows = _draw_events(axes, panel.events, style)
    axes.set_title(title, loc="left", fontsize=11, pad=TITLE_PAD + NUMBER_POINTS * rows)


def _first_level(each: Series) -> float:
    return each.segments[0][2]


def _reach(series: Sequence[Series], margin: float) -> ChangeAxis:
    """The axis of changes, which reaches all levels and nearly all points."""
    levels = [level - _first_level(each) for each in series for _, _, level in each.segments]
    points = [log - _first_level(each) for each in series for log in each.logs]
    low, high = np.quantile(points, [(1 - SHOWN_SHARE) / 2, (1 + SHOWN_SHARE) / 2]) if points else (0.0, 0.0)
    low, high = min(low, *levels, -LEAST_REACH), max(high, *levels, LEAST_REACH)
    room = 0.05 * (high - low)
    return ChangeAxis(float(low - room), float(high + room), math.log1p(margin))


def _draw_series(axes: Axes, each: Series, style: PanelStyle, reach: ChangeAxis) -> None:
    """Draw dots for runs, and a line for each level. Dots beyond the axis become triangles at its edge."""
    look, first = style.styles[each.key.configuration], _first_level(each)
    xs = np.array([style.time.places[point.run] for point in each.timed])
    ys = np.array([log - first for log in each.logs])
    beyond = (ys > reach.high) | (ys < reach.low)
    size = 4.5 if len(xs) > FEW_RUNS else 8.0
    axes.plot(
        xs[~beyond], ys[~beyond], ".", color=look.colour, markersize=size, alpha=0.5, markeredgewidth=0, zorder=3,
        rasterized=len(xs) > MOST_VECTOR_DOTS,
    )  # fmt: skip
    for chosen, edge, shape in ((ys > reach.high, reach.high, "^"), (ys < reach.low, reach.low, "v")):
        if chosen.any():  # matplotlib leaves room for a line without points that is not clipped
            edges = np.full(chosen.sum(), edge)
            axes.plot(xs[chosen], edges, shape, color=look.colour, markersize=5, alpha=0.7, clip_on=False)
    for place, (start, end, level) in enumerate(each.segments):
        left = style.time.before(each.timed[start].run) if place else xs[start]
        right = style.time.before(each.timed[end].run) if end < len(xs) else xs[end - 1]
        axes.plot([left, right], [level - first] * 2, color=look.colour, linestyle=look.line, linewidth=2.2, zorder=4)
        if end < len(xs):
            after = each.segments[place + 1][2]
            heights = [level - first, after - first]
            axes.plot([right, right], heights, color=look.colour, linewidth=1.2, alpha=0.7, zorder=4)


def _draw_times(axes: Axes, series: Sequence[Series], style: PanelStyle, span: float) -> None:
    """Write the present time of each provider beside the end of its line, where there is room for all."""
    if not 0 < len(series) <= MOST_END_LABELS:
        return
    ends = {each.key: each.segments[-1][2] - _first_level(each) for each in series}
    ordered = sorted(series, key=lambda each: (ends[each.key], each.key.order))
    heights = [ends[each.key] / span * style.height for each in ordered]
    right = axes.get_xlim()[1]
    for each, wish, height in zip(ordered, heights, spread(heights), strict=True):
        colour = style.theme.readable(style.styles[each.key.configuration].colour)
        axes.annotate(
            f"{four_digits(math.exp(each.segments[-1][2]) * 1e3)} \N{MICRO SIGN}s", (right, ends[each.key]),
            (5, height - wish), "data", "offset points", va="center", fontsize=9.5, color=colour, annotation_clip=False,
        )  # fmt: skip


def _draw_events(axes: Axes, events: Sequence[HistoryEvent], style: PanelStyle) -> int:
    """Draw a dashed line where something changed, with the number of the event above the panel. Returns the number of rows
    that the numbers need, because neighbours would touch in one."""
    low, high = axes.get_xlim()
    ends: list[float] = []
    for event in events:
        x = style.time.before(event.run)
        axes.axvline(x, color=style.theme.quiet, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
        if not event.number:
            continue
        left = (x - low) / (high - low) * style.width - NUMBER_POINTS / 2
        row = next((place for place, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [left + NUMBER_POINTS]
        axes.annotate(
            str(event.number), (x, 1), (0, 4 + NUMBER_POINTS * row), ("data", "axes fraction"), "offset points",
            ha="center", va="bottom", fontsize=9, fontweight="bold", color=style.theme.ink, annotation_clip=False,
        )  # fmt: skip
    return len(ends)


def _draw_strip(axes: Axes, series: Sequence[Series], style: PanelStyle) -> float:
    """Draw a row of marks for each provider that has no time in some run. Returns the height that they take, as a share."""
    lost = [each for each in series if any(mark_of(point) for point in each.points)]
    height = min(LOST_ROW, MOST_OF_LOST / max(1, len(lost)))
    for row, each in enumerate(lost):
        for kind in (FAILED, DECLINED):
            xs = [style.time.places[point.run] for point in each.points if mark_of(point) == kind]
            axes.plot(
                xs, [height * (row + 0.5)] * len(xs), color=style.styles[each.key.configuration].colour,
                transform=axes.get_xaxis_transform(), zorder=4, **row_mark(kind, 0.75 * height / LOST_ROW),
            )  # fmt: skip
    return height * len(lost)


def mark_of(point: RunPoint) -> str:
    """The mark of a run without a time; "" for one with a time."""
    return "" if point.log_ms is not None else FAILED if point.failed else DECLINED
