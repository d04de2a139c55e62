"""A comparison as CSV for pandas and spreadsheets: one line per row, numbers at full precision."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

from kbench.comparison.model import Comparison, JudgedRow
from kbench.text.printable import no_formula

OUTCOME = (
    "baseline", "contender", "verdict", "reason", "ratio", "ci_low", "ci_high", "q", "metric", "old", "new",
    "old_sessions", "new_sessions",
)  # fmt: skip


def text(comparison: Comparison) -> str:
    """Empty cells are unknown values. `old` and `new` are values of the column in `metric`."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    writer.writerow(map(no_formula, column_names(comparison)))
    for row in comparison.rows:
        values = cells(row, comparison).values()
        writer.writerow([no_formula(value) if isinstance(value, str) else value for value in values])
    return lines.getvalue()


def column_names(comparison: Comparison) -> list[str]:
    """The names of the columns: what was compared, then OUTCOME."""
    axes = [_column(name) for row in comparison.rows[:1] for name, _ in row.key.axes]
    return ["operator", "provider", "params", *axes, "dtype", *OUTCOME]


def cells(row: JudgedRow, comparison: Comparison) -> dict[str, Any]:
    """The cells of a row by column. None stands for an unknown value."""
    low, high = row.ci or (None, None)
    return {
        **{_column(name): value for name, value in row.key.columns.items()},
        "baseline": comparison.old,
        "contender": comparison.new,
        "verdict": row.verdict.value,
        "reason": row.reason,
        "ratio": finite(row.ratio),
        "ci_low": finite(low),
        "ci_high": finite(high),
        "q": finite(row.q),
        "metric": comparison.options.metric,
        "old": finite(row.old.value) if row.old else None,
        "new": finite(row.new.value) if row.new else None,
        "old_sessions": row.old.sessions if row.old else 0,
        "new_sessions": row.new.sessions if row.new else 0,
    }


def finite(number: float | None) -> float | None:
    """The number, or None for NaN and infinities, which no file has."""
    return number if number is not None and math.isfinite(number) else None


def _column(name: str) -> str:
    """An axis whose name is that of another column gets a prefix."""
    return f"axis_{name}" if name in OUTCOME else name
