"""Pictures of a history: one for each machine and operator, with a panel for each case. A panel shows how the time of each
provider has changed since its first level, and a number where something changed."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbench.history.change_points import FEWEST
from kbench.history.changes import HistoryChange
from kbench.history.report import HistoryReport
from kbench.history.report_text import NOTHING_MOVED, counted_kinds, events, moved_text
from kbench.history.timeline import Series
from kbench.plotting.names import file_name_part, four_digits, shorten, title_of
from kbench.plotting.pages import Page, Picture, groups
from kbench.plotting.scales import ChangeAxis
from kbench.plotting.sheet import Grid, draw_strip, finish, make_panels, name_ends, strip_share, write_beside
from kbench.plotting.style import LIMIT_LINE, Style, Theme, row_mark, styles
from kbench.results.vocabulary import Status
from kbench.text.numbers import format_change
from kbench.text.words import plural

MOST_CASES = 12
"""A page with more panels could not be read. The cases with the largest changes are drawn."""

MOST_EVENTS = 10
"""Runs with a number, the last ones in which something changed. More would not fit below the panels."""

PANEL_INCHES, DATE_TICKS = 2.7, 6
"""The height of a panel, and its most dates."""

NUMBER_POINTS = 15.0
"""The width and the height that the number of an event needs, in points."""


@dataclass(frozen=True)
class HistoryPage:
    """The series of an operator on a machine.

    cases    a panel for each case that is drawn
    columns  what tells cases apart
    runs     the places of the runs that the page shows
    events   the changes by the place of their run, in the order of time
    total    the number of cases, drawn or not
    """

    report: HistoryReport
    cases: Page[Series]
    columns: list[str]
    runs: list[int]
    events: dict[int, list[HistoryChange]]
    total: int
    styles: Mapping[str, Style]
    theme: Theme

    @property
    def numbers(self) -> dict[int, int]:
        """The numbers of the last events, by the place of their run."""
        return {run: number for number, run in enumerate([*self.events][-MOST_EVENTS:], start=1)}

    @cached_property
    def x(self) -> list[float]:
        """The date of each run of the history in days, as matplotlib counts it."""
        moments = [datetime.fromisoformat(run.started_at).replace(tzinfo=None) for run in self.report.timeline.runs]
        return list(date2num(moments))  # type: ignore[no-untyped-call]

    def before(self, run: int) -> float:
        """The middle between a run and the one before it."""
        return (self.x[max(run - 1, 0)] + self.x[run]) / 2

    def style(self, series: Series) -> Style:
        return self.styles[series.key.configuration_name]


def draw_history(report: HistoryReport, theme: Theme) -> Iterator[Picture]:
    """The pictures of a history, one for each machine and operator with a time."""
    several = len({series.key.machine for series in report.series}) > 1
    for names, members in groups(report.series, ["device", "operator"]):
        if any(series.timed for series in members):
            machine, operator = names.values()
            name = file_name_part(f"{operator}-{machine}" if several else operator)
            yield Picture(name, _draw_page(_page(report, members, theme)))


def _page(report: HistoryReport, members: Sequence[Series], theme: Theme) -> HistoryPage:
    columns = list(dict.fromkeys(name for series in members for name in series.where))
    cases = [of_case for _, of_case in groups(members, columns)]
    largest = dict.fromkeys((series.key for series in members), 0.0)
    events_by_run: dict[int, list[HistoryChange]] = defaultdict(list)
    for change in report.changes:
        key = change.series.key
        if key in largest:
            events_by_run[change.event_run].append(change)
            largest[key] = max(largest[key], abs(math.log(change.ratio)) if change.ratio else math.inf)
    cases.sort(key=lambda of_case: -max(largest[series.key] for series in of_case))
    shown = [series for of_case in cases[:MOST_CASES] for series in of_case]
    return HistoryPage(
        report,
        Page.of({}, shown, columns),
        columns,
        sorted({point.run for series in shown for point in series.points}),
        events_by_run,
        len(cases),
        styles({series.key.configuration_name for series in shown}, theme),
        theme,
    )


def _draw_page(page: HistoryPage) -> Figure:
    """The panels, with a legend and the list of the events."""
    grid = Grid.of(page.cases.titles)
    figure, grid_axes = make_panels(grid, PANEL_INCHES * grid.rows)
    for axes, panel in zip(grid_axes, page.cases.panels, strict=True):
        timed = [series for series in panel if series.timed]
        axis = _axis(timed)
        lost = [(page.style(series).colour, marks) for series in panel if (marks := _marks(series, page))]
        strip = strip_share(len(lost))
        draw_strip(axes, lost, strip, 0.75)
        axes.set_ylim(axis.high - (axis.high - axis.low) / (1 - strip), axis.high)
        axis.label(axes.yaxis, 6)
        _draw_dates(axes, page)
        for series in timed:
            _draw_series(axes, series, page, axis)
        if len(timed) <= 8:  # more do not fit beside the panel
            ends = []
            for series in timed:
                now = f"{four_digits(math.exp(series.fitted[-1]) * 1e3)} \N{MICRO SIGN}s"
                ends.append((series.fitted[-1] - series.fitted[0], now, page.style(series).colour))
            name_ends(axes, ends, page.theme, 9.5, leaders=False)
        runs = [run for run, changes in page.events.items() if any(change.series in panel for change in changes)]
        number_rows = _draw_events(axes, runs, page, grid.panel_width)
        axes.set_title(axes.get_title(loc="left"), loc="left", pad=7 + NUMBER_POINTS * number_rows)
    title, caption = title_of(page.cases.whole(page.columns)), "\n".join(_caption(page))
    return finish(figure, title, caption, _legend(page), page.theme, "change since the first level")


def _axis(series: Sequence[Series]) -> ChangeAxis:
    """The axis reaches all levels and 98 % of the points, and at least 4 % to both sides: noise looks like no change."""
    levels = [level - member.fitted[0] for member in series for level in member.fitted]
    points = [log - member.fitted[0] for member in series for log in member.logs]
    low, high = np.quantile(points, [0.01, 0.99]) if points else (0.0, 0.0)
    low, high = min(low, *levels, -math.log(1.04)), max(high, *levels, math.log(1.04))
    room = 0.05 * (high - low)
    return ChangeAxis(float(low - room), float(high + room))


def _draw_dates(axes: Axes, page: HistoryPage) -> None:
    low, high = page.x[page.runs[0]], page.x[page.runs[-1]]
    room = 0.02 * (high - low) or 2.0
    axes.set_xlim(low - room, high + room)
    locator = AutoDateLocator(minticks=min(2, len(page.runs)), maxticks=DATE_TICKS)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.tick_params(labelsize=10)


def _draw_series(axes: Axes, series: Series, page: HistoryPage, axis: ChangeAxis) -> None:
    """Draw dots for runs, and a line for each level. Dots beyond the axis become triangles at its edge."""
    style = page.style(series)
    xs = np.array([page.x[point.run] for point in series.timed])
    ys, levels = np.array(series.logs) - series.fitted[0], np.array(series.fitted) - series.fitted[0]
    above, below = ys > axis.high, ys < axis.low
    dot = 4.5 if len(xs) > 15 else 8.0
    for chosen, shape, size in ((~above & ~below, ".", dot), (above, "^", 5.0), (below, "v", 5.0)):
        if chosen.any():
            dots: dict[str, Any] = {
                "color": style.colour,
                "alpha": 0.6,
                "markersize": size,
                "markeredgewidth": 0,
                "zorder": 3,
            }
            dots["rasterized"] = len(xs) > 200  # an SVG or PDF would become too large otherwise
            inside = np.clip(ys[chosen], axis.low, axis.high)
            axes.plot(xs[chosen], inside, shape, clip_on=False, **dots)
    axes.step(xs, levels, where="mid", color=style.colour, linestyle=style.line, linewidth=2.2, zorder=4)


def _draw_events(axes: Axes, runs: Sequence[int], page: HistoryPage, width: float) -> int:
    """Draw a dashed line where something changed, with the number of the event above the panel, which is `width` points wide.
    Returns how many rows the numbers need, so that none touch."""
    low, high = axes.get_xlim()
    ends: list[float] = []
    for run in runs:
        x = page.before(run)
        axes.axvline(x, color=page.theme.quiet, linewidth=1.0, linestyle=LIMIT_LINE, zorder=1)
        if run not in page.numbers:
            continue
        left = (x - low) / (high - low) * width
        row = next((place for place, end in enumerate(ends) if end <= left), len(ends))
        ends[row : row + 1] = [left + NUMBER_POINTS]
        above = 0, 4 + NUMBER_POINTS * row
        font = {
            "ha": "center",
            "va": "bottom",
            "fontsize": 9,
            "fontweight": "bold",
            "color": page.theme.ink,
        }
        write_beside(axes, str(page.numbers[run]), (x, 1), above, ("data", "axes fraction"), **font)
    return len(ends)


def _marks(series: Series, page: HistoryPage) -> dict[Status, list[float]]:
    """The places of runs without a time, by a status that stands for all that failed or were declined."""
    places: dict[Status, list[float]] = defaultdict(list)
    for point in series.points:
        if point.log_ms is None:
            places[Status.ERROR if point.failed else Status.UNSUPPORTED].append(page.x[point.run])
    return places


def _legend(page: HistoryPage) -> list[Line2D]:
    names = shorten(page.styles)
    entries = [
        Line2D([], [], label=names[curve], color=style.colour, linestyle=style.line, linewidth=2.2)
        for curve, style in page.styles.items()
    ]
    marks = {status for series in page.cases.points for status in _marks(series, page)}
    for status, label in (
        (Status.ERROR, "run in which it failed"),
        (Status.UNSUPPORTED, "run that it declined"),
    ):
        if status in marks:
            entries.append(Line2D([], [], label=label, color=page.theme.muted, **row_mark(status, 0.75)))
    return entries


def _caption(page: HistoryPage) -> Iterator[str]:
    report = page.report
    days = dict.fromkeys([report.day(page.runs[0]), report.day(page.runs[-1])])
    noises = [series.noise for series in page.cases.points if len(series.timed) >= FEWEST]
    facts = [f"{plural(len(page.runs), 'run')} from {' to '.join(days)}"]
    facts += ["times relative to the copy control"] if report.corrected else []
    facts += [f"noise {statistics.median(noises) * 100:.1f} %"] if noises else []
    yield " · ".join([*facts, f"margin {report.options.margin * 100:g} %"])
    yield "dots: runs, triangles: runs beyond the axis · lines: levels · numbers: runs in which something changed"
    if page.total > len(page.cases.panels):
        yield f"{len(page.cases.panels)} of {page.total} cases are drawn: those with the largest changes"
    if older := len(page.events) - len(page.numbers):
        yield f"{older} older {'event has' if older == 1 else 'events have'} no number"
    for run, number in page.numbers.items():
        yield f"{number}: {_event_text(report, run, page.events[run])}"


def _event_text(report: HistoryReport, run: int, changes: Sequence[HistoryChange]) -> str:
    ratios = sorted(change.ratio for change in changes if change.ratio)
    sizes = list(dict.fromkeys(format_change(ratio) for ratio in ratios[:1] + ratios[-1:]))
    names = shorten(dict.fromkeys(change.series.key.configuration_name for change in changes))
    text = f"{report.day(run)} · {counted_kinds(changes)}"
    text += f" ({' to '.join(sizes)})" if sizes else ""
    moved = [words for group in events(changes) if (words := moved_text(group)) not in ("", NOTHING_MOVED)]
    parts = [text, ", ".join(names.values()), *dict.fromkeys(moved or [NOTHING_MOVED])]
    return " · ".join(parts).replace("->", "\N{RIGHTWARDS ARROW}")
