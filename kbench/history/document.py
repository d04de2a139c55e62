"""A judged history as JSON, for programs. docs/history.md describes it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from kbench.history.report import HistoryChange, HistoryReport
from kbench.history.timeline import RunPoint, SeriesKey

VERSION = "kbench.history-check/1"
"""It changes if programs that read the document have to change."""


def history_json(report: HistoryReport) -> str:
    """The document, with a line break at its end."""
    document = {
        "schema": VERSION,
        "passed": not report.failing,
        "fail_on": report.options.fail_on,
        "margin": report.options.margin,
        "runs": len(report.timeline.runs),
        "notes": report.notes,
        "uncorrected": report.timeline.uncorrected,
        "changes": [_change(change, report) for change in report.changes],
        "series": [
            {
                "series": _identity(series.key),
                "noise": series.noise,
                "points": [_point(point, report) for point in series.points],
            }
            for series in report.series
        ],
    }
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _change(change: HistoryChange, report: HistoryReport) -> dict[str, Any]:
    baseline = change.moved.baseline
    return {
        "kind": change.kind.value,
        "recent": change.recent,
        "series": _identity(change.series.key),
        "before": _point(change.before, report),
        "at": _point(change.at, report),
        "earliest_run": change.runs[0],
        "latest_run": change.runs[1],
        "reason": change.reason,
        "old_ms": change.old_ms,
        "new_ms": change.new_ms,
        "ratio": change.ratio,
        "ci": change.ci,
        "moved": {
            **{kind: list(map(asdict, properties)) for kind, properties in change.moved.properties.items()},
            "copies": change.moved.copies,
            "baseline": {"provider": baseline[0], "ratio": baseline[1]} if baseline else None,
        },
    }


def _identity(key: SeriesKey) -> dict[str, Any]:
    return {**asdict(key), "axes": dict(key.axes)}


def _point(point: RunPoint, report: HistoryReport) -> dict[str, Any]:
    return {
        "run": point.run,
        "started_at": point.started_at,
        "commit": report.timeline.runs[point.run].commit,
        "status": point.status,
        "ms": point.ms,
    }
