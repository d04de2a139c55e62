"""A comparison as CSV for pandas and spreadsheets: one line per row, numbers at full precision."""

from __future__ import annotations

import csv
import io
from typing import Any

from kbench.comparison.join import Side
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation.row_names import key_columns
from kbench.comparison.presentation.wording import finite
from kbench.text.printable import no_formula

OUTCOME = (
    "baseline", "contender", "verdict", "reason", "ratio", "ci_low", "ci_high", "q", "metric", "old", "new",
    "old_sessions", "new_sessions",
)  # fmt: skip


def text(comparison: Comparison) -> str:
    """Empty cells are unknown values. `old` and `new` are values of the column in `metric`."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, list(map(no_formula, column_names(comparison))), lineterminator="\n")
    writer.writeheader()
    for row in comparison.rows:
        told = cells(row, comparison).items()
        writer.writerow({no_formula(name): no_formula(cell) if isinstance(cell, str) else cell for name, cell in told})
    return lines.getvalue()


def column_names(comparison: Comparison) -> list[str]:
    """The names of the columns: what was compared, then OUTCOME."""
    axes = [_column(name) for row in comparison.rows[:1] for name, _ in row.key.axes]
    return ["operator", "provider", "params", *axes, "dtype", *OUTCOME]


def cells(row: JudgedRow, comparison: Comparison) -> dict[str, Any]:
    """The cells of a row by column. None stands for an unknown value."""
    low, high = row.ci or (None, None)
    return {
        **{_column(name): value for name, value in key_columns(row, comparison).items()},
        "baseline": comparison.baseline,
        "contender": row.contender,
        "verdict": row.verdict.value,
        "reason": row.reason,
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
    """An axis whose name is that of another column gets a prefix."""
    return f"axis_{name}" if name in OUTCOME else name


def _value(side: Side | None) -> float | None:
    return finite(side.value) if side else None
