"""The content of a page on a history, as JSON can hold it."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence

from kbench.comparison.presentation.wording import interval
from kbench.comparison.verdict import Verdict
from kbench.history.report import HistoryChange, HistoryReport
from kbench.history.report_text import baseline_text, day, head, method_line, moved_text, notes
from kbench.history.timeline import Series, SeriesKey
from kbench.plotting import plot_history, rendered
from kbench.plotting.style.theme import THEMES
from kbench.reporting.json_columns import Json, number_column, word_column
from kbench.results.case import MODES
from kbench.results.vocabulary import Flag, Status
from kbench.version import __version__

METHOD = (
    "A series is one provider in one case on one machine. The copy controls of a session tell how slow the machine was in "
    "it. kbench subtracts this from the times of the session, so a drift of the whole machine does not count as a change. A "
    "change of level is found by the method of Fearnhead and Rigaill (2019). It is reported when three points follow it.",
    "The column `moved` names the properties that differ between the last run before the change and the first run "
    "after it. They need not be its cause.",
)


def history_content(report: HistoryReport, title: str = "") -> Json:
    """The content of a page. `report` has all changes, recent or not."""
    changes = list(reversed(report.changes))
    counts = Counter(change.kind for change in changes)
    return {
        "title": title or f"kbench history: {report.path.name or report.path}",
        "version": __version__,
        "modes": MODES,
        "lede": head(report),
        "headline": method_line(report),
        "notes": [*notes(report), *report.notes],
        "pictures": _pictures(report),
        "glyphs": {verdict.value: verdict.glyph for verdict in Verdict},
        "counts": [
            {"word": kind.value, "glyph": kind.glyph, "count": counts[kind]} for kind in Verdict if counts[kind]
        ],
        "failures": [*(status.value for status in Status if status.failed), Flag.SUSPECT.value],
        "changes": _changes(changes, report),
        "series": _series(report.series, report),
        "method": METHOD,
    }


def _pictures(report: HistoryReport) -> list[Json]:
    """The pictures, each in both themes as an SVG in a data URL."""
    by_theme = [
        [(picture.combination, name, rendered(picture, "svg", name)) for picture in plot_history(report, name)]
        for name in THEMES
    ]
    return [
        {"title": same[0][0]}
        | {name: f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}" for _, name, svg in same}
        for same in zip(*by_theme, strict=True)
    ]


def _changes(changes: Sequence[HistoryChange], report: HistoryReport) -> Json:
    """A row for each change, the newest first."""
    runs = report.timeline.runs
    columns = [
        word_column("run", (day(runs[change.event_run].started_at) for change in changes)),
        word_column("kind", (change.kind.value for change in changes)),
        *_identity([change.series.key for change in changes]),
        number_column("change", (change.ratio - 1 if change.ratio else None for change in changes), "time", "change"),
        word_column("interval", (interval(change.ci) if change.ci else "" for change in changes), "95 % interval"),
        number_column("old_ms", (change.old_ms for change in changes), "old (\N{MICRO SIGN}s)", "us"),
        number_column("new_ms", (change.new_ms for change in changes), "new (\N{MICRO SIGN}s)", "us"),
        word_column("moved", ("; ".join(filter(None, [moved_text([each]), baseline_text(each)])) for each in changes)),
        word_column("reason", (change.reason for change in changes)),
    ]
    return {"count": len(changes), "columns": columns}


def _series(series: Sequence[Series], report: HistoryReport) -> Json:
    """A row for each series."""
    levels = [[level for *_, level in each.segments] for each in series]
    columns = [
        *_identity([each.key for each in series]),
        number_column("ms", (math.exp(own[-1]) if own else None for own in levels), "now (\N{MICRO SIGN}s)", "us"),
        number_column(
            "since", (math.expm1(own[-1] - own[0]) if own else None for own in levels), "since first", "change"
        ),
        number_column("noise", (each.noise for each in series), "noise (%)", "%"),
        number_column("points", (len(each.points) for each in series), "runs", "whole"),
        word_column("status", (each.points[-1].status for each in series)),
        word_column("last", (day(each.points[-1].started_at) for each in series), "last run"),
        word_column("reason", (each.points[-1].reason for each in series)),
    ]
    return {"count": len(series), "columns": columns}


def _identity(keys: Sequence[SeriesKey]) -> list[Json]:
    """The columns that say what a series is. The page leaves out columns without values."""
    axes = dict.fromkeys(name for key in keys for name, _ in key.axes)
    single = len({key.machine for key in keys}) == 1
    return [
        *([] if single else [word_column("machine", (key.machine for key in keys))]),
        word_column("operator", (key.operator for key in keys)),
        *(word_column(name, (dict(key.axes).get(name) for key in keys)) for name in axes),
        word_column("dtype", (key.dtype for key in keys)),
        word_column("provider", (key.configuration for key in keys)),
    ]
