"""What a page on a history says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kbench.comparison.verdict import Verdict
from kbench.history.changes import HistoryChange
from kbench.history.report import HistoryReport
from kbench.history.report_text import baseline_text, head, method_line, moved_text, notes
from kbench.history.timeline import Series, SeriesKey
from kbench.plotting import plot_history
from kbench.reporting.parts import inline_svg, number, page_table
from kbench.text.numbers import format_change, interval, microseconds
from kbench.text.table import Table

METHOD = (
    "A series is one provider in one case on one machine. The copy controls of a session tell how slow the machine was in "
    "it. kbench subtracts this from the times of the session, so a drift of the whole machine does not count as a change. A "
    "change of level is found by the method of Fearnhead and Rigaill (2019). It is reported when three points follow it.",
    "The column `moved` names the properties that differ between the last run before the change and the first run "
    "after it. They need not be its cause.",
)


def history_content(report: HistoryReport, title: str) -> dict[str, Any]:
    """The content of a page. `report` has all changes, recent or not."""
    changes = list(reversed(report.changes))
    counts = Counter(change.kind for change in changes)
    return {
        "title": title or f"kbench history: {report.path.name or report.path}",
        "lede": head(report),
        "headline": method_line(report),
        "notes_of_history": [*notes(report), *report.notes],
        "pictures": [inline_svg(picture) for picture in plot_history(report, "light")],
        "counts": {kind: counts[kind] for kind in Verdict if counts[kind]},
        "changes": _changes(changes, report),
        "series": _series(report.series),
        "how_to_read": METHOD,
    }


def _changes(changes: Sequence[HistoryChange], report: HistoryReport) -> Table:
    columns = [
        ("run", [report.day(change.event_run) for change in changes]),
        ("kind", [change.kind.value for change in changes]),
        *_identity([change.series.key for change in changes]),
        ("time", [format_change(change.ratio) if change.ratio else "" for change in changes]),
        ("95 % interval", [interval(change.ci) if change.ci else "" for change in changes]),
        ("old (µs)", [number(change.old_ms, microseconds) for change in changes]),
        ("new (µs)", [number(change.new_ms, microseconds) for change in changes]),
        (
            "moved",
            ["; ".join(filter(None, [moved_text([change]), baseline_text(change)])) for change in changes],
        ),
        ("reason", [change.reason for change in changes]),
    ]
    return page_table(columns)


def _series(series: Sequence[Series]) -> Table:
    fitted = [member.fitted for member in series]
    last = [member.points[-1] for member in series]
    columns = [
        *_identity([member.key for member in series]),
        ("now (µs)", [microseconds(math.exp(logs[-1])) if logs else "" for logs in fitted]),
        ("since first", [format_change(math.exp(logs[-1] - logs[0])) if logs else "" for logs in fitted]),
        ("noise (%)", [number(100 * member.noise, "{:.1f}".format) for member in series]),
        ("runs", [str(len(member.points)) for member in series]),
        ("status", [point.status for point in last]),
        ("last run", [point.day for point in last]),
        ("reason", [point.reason for point in last]),
    ]
    return page_table(columns)


def _identity(keys: Sequence[SeriesKey]) -> list[tuple[str, list[str]]]:
    """The columns that say what a series is."""
    axes = dict.fromkeys(name for key in keys for name in key.case.axes)
    single = len({key.machine for key in keys}) == 1
    return [
        *([] if single else [("machine", [key.machine for key in keys])]),
        ("operator", [key.case.operator for key in keys]),
        *((name, [str(key.case.axes.get(name, "")) for key in keys]) for name in axes),
        ("dtype", [key.case.dtype for key in keys]),
        ("provider", [key.configuration_name for key in keys]),
    ]
