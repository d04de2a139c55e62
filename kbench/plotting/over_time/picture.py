"""A page of a history as a figure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from kbench.history.change_points import FEWEST
from kbench.history.report_text import NOTHING_MOVED, counted_kinds, day, events, moved_text
from kbench.plotting.over_time.pages import HistoryEvent, HistoryPage
from kbench.plotting.over_time.panel import PanelStyle, draw_panel, mark_of
from kbench.plotting.over_time.time_axis import TimeAxis
from kbench.plotting.page.layout import (
    PAGE_WIDTHS,
    POINTS_PER_INCH,
    LegendBlock,
    LegendEntry,
    Sheet,
    grid,
    middle_of,
    subplots,
)
from kbench.plotting.panels.marks import row_mark
from kbench.plotting.selection.points import DECLINED, FAILED
from kbench.plotting.style.colours import Style, styles
from kbench.plotting.style.formatting import shorten, title_of, wrap
from kbench.plotting.style.theme import Theme
from kbench.text.words import plural

PANEL_HEIGHT = {1: 3.4, 2: 2.8, 3: 2.5}
"""In inches, by columns of panels."""

NOT_AXES = {1: 1.5, 2: 1.5, 3: 1.5}
ABOVE_AXES = 0.85
"""Inches of a panel that its labels take, across and along."""

PANEL_TITLE_CHARACTERS = {1: 70, 2: 44, 3: 34}
DATE_TICKS = {1: 9, 2: 6, 3: 5}

Y_LABEL = "change since the first level"


def draw_history(page: HistoryPage, theme: Theme) -> Figure:
    """A page with its legend and the list of its events."""
    columns, rows = grid(len(page.panels))
    height = PANEL_HEIGHT[columns]
    found = styles({each.key.configuration for panel in page.panels for each in panel.series}, theme)
    runs = page.runs
    time = TimeAxis.of([run.started_at for run in page.report.timeline.runs], (runs[0], runs[-1]))
    style = PanelStyle(
        theme,
        found,
        time,
        page.report.options.margin,
        DATE_TICKS[columns],
        (PAGE_WIDTHS[columns] / columns - NOT_AXES[columns]) * POINTS_PER_INCH,
        (height - ABOVE_AXES) * POINTS_PER_INCH,
    )
    blocks = [LegendBlock.across(PAGE_WIDTHS[columns], _legend(page, found, theme))]
    title = title_of({"operator": page.operator, **page.shared, "device": page.machine})
    figure = Sheet(columns, rows * height, title, "\n".join(_caption(page)), blocks, theme).figure()
    for axes, panel in zip(subplots(figure, rows, columns, len(page.panels)), page.panels, strict=True):
        draw_panel(axes, panel, style, wrap(title_of(panel.where), PANEL_TITLE_CHARACTERS[columns]))
    figure.supylabel(Y_LABEL, fontsize=12).set_y(middle_of(figure))
    return figure


def _legend(page: HistoryPage, found: dict[str, Style], theme: Theme) -> list[LegendEntry]:
    names = shorten(found)
    entries: list[LegendEntry] = [
        (names[curve], Line2D([], [], color=style.colour, linestyle=style.line, linewidth=2.2))
        for curve, style in found.items()
    ]
    points = [point for panel in page.panels for each in panel.series for point in each.points]
    for kind, name in ((FAILED, "run in which it failed"), (DECLINED, "run that it declined")):
        if any(mark_of(point) == kind for point in points):
            entries.append((name, Line2D([], [], color=theme.muted, **row_mark(kind, 0.75))))
    return entries


def _caption(page: HistoryPage) -> Iterator[str]:
    report = page.report
    runs = page.runs
    days = dict.fromkeys(day(report.timeline.runs[run].started_at) for run in (runs[0], runs[-1]))
    noises = [each.noise for panel in page.panels for each in panel.series if len(each.timed) >= FEWEST]
    yield " · ".join(
        [
            f"{plural(len(runs), 'run')} from {' to '.join(days)}",
            *(["times relative to the copy control"] if report.corrected else []),
            *([f"noise {statistics.median(noises) * 100:.1f} %"] if noises else []),
            f"margin {report.options.margin * 100:g} %",
        ]
    )
    yield "dots: runs, triangles: runs beyond the axis · lines: levels · numbers: runs in which something changed"
    if page.cases > len(page.panels):
        yield f"{len(page.panels)} of {page.cases} cases are drawn: those with the largest changes"
    if older := sum(not event.number for event in page.events):
        yield f"{older} older {'event has' if older == 1 else 'events have'} no number"
    for event in page.events:
        if event.number:
            yield f"{event.number}: {_event_text(page, event)}"


def _event_text(page: HistoryPage, event: HistoryEvent) -> str:
    changes = event.changes
    ratios = sorted(change.ratio for change in changes if change.ratio)
    sizes = list(dict.fromkeys(_size(ratio) for ratio in ratios[:1] + ratios[-1:]))
    names = shorten(dict.fromkeys(change.series.key.configuration for change in changes))
    text = f"{day(page.report.timeline.runs[event.run].started_at)} · {counted_kinds(changes)}"
    text += f" ({' to '.join(sizes)})" if sizes else ""
    moved = [words for group in events(changes) if (words := moved_text(group)) not in ("", NOTHING_MOVED)]
    told = " · ".join([text, ", ".join(names.values()), *dict.fromkeys(moved or [NOTHING_MOVED])])
    return told.replace("->", "\N{RIGHTWARDS ARROW}")


def _size(ratio: float) -> str:
    """`+4.6 %`, or `30x` for a time that at least doubled."""
    return f"{ratio:.3g}x" if ratio >= 2 else f"{100 * (ratio - 1):+.1f} %".replace("-", "\N{MINUS SIGN}")
