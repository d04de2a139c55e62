"""A comparison as CSV: a line per row, exact numbers, for pandas and spreadsheets."""

from __future__ import annotations

import csv
import io
from typing import Any

from kbench.comparison import Comparison
from kbench.comparison.formats.rows import key_columns
from kbench.comparison.formats.words import finite, plain
from kbench.comparison.join import Side
from kbench.comparison.verdict import Verdict

OUTCOME = (
    "baseline", "contender", "verdict", "reason", "ratio", "ci_low", "ci_high", "q", "metric", "old", "new",
    "old_sessions", "new_sessions",
)  # fmt: skip


def text(comparison: Comparison) -> str:
    """Empty cells are unknown. `old` and `new` are values of the metric, which `metric` names."""
    axes = [_column(name) for row in comparison.rows[:1] for name, _ in row.key.axes]
    who = ["provider", "params"] if comparison.by == "file" else []
    lines = io.StringIO()
    writer = csv.DictWriter(lines, ["operator", *who, *axes, "dtype", *OUTCOME], lineterminator="\n")
    writer.writeheader()
    writer.writerows(_cells(row, comparison) for row in comparison.rows)
    return lines.getvalue()


def _cells(row: Verdict, comparison: Comparison) -> dict[str, Any]:
    low, high = row.ci or (None, None)
    return {
        **{_column(name): value for name, value in key_columns(row, comparison).items()},
        "baseline": plain(comparison.baseline),
        "contender": plain(row.contender),
        "verdict": row.word,
        "reason": plain(row.reason),
        "ratio": finite(row.ratio),
        "ci_low": finite(low),
        "ci_high": finite(high),
        "q": finite(row.q),
        "metric": comparison.rules.metric,
        "old": _value(row.old),
        "new": _value(row.new),
        "old_sessions": row.old.sessions if row.old else 0,
        "new_sessions": row.new.sessions if row.new else 0,
    }


def _column(name: str) -> str:
    """An axis may be called what a column is called."""
    return f"axis_{name}" if name in OUTCOME else name


def _value(side: Side | None) -> float | None:
    return finite(side.value) if side else None
