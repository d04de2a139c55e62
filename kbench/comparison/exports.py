"""The formats of `--export` by name. Each makes a text of a comparison."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from kbench.comparison import github
from kbench.comparison.model import Comparison, JudgedRow
from kbench.text.printable import no_formula


def csv_text(comparison: Comparison) -> str:
    """A line per row, for pandas and spreadsheets: numbers at full precision. Empty cells are unknown values."""
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    rows = [row_cells(row, comparison) for row in comparison.rows]
    for cells in ([*rows[0]], *(row.values() for row in rows)):
        writer.writerow([no_formula(cell) if isinstance(cell, str) else cell for cell in cells])
    return lines.getvalue()


def row_cells(row: JudgedRow, comparison: Comparison) -> dict[str, Any]:
    """The cells of a row by column: what was compared, then the outcome. `old` and `new` are values of the column in `metric`.
    None stands for an unknown value. An axis whose name is that of another column gets a prefix."""
    low, high = row.ci or (None, None)
    outcome = {
        "old_label": comparison.old,
        "new_label": comparison.new,
        "verdict": row.verdict.value,
        "reason": row.reason,
        "ratio": row.ratio,
        "ci_low": low,
        "ci_high": high,
        "q": row.q,
        "metric": comparison.options.metric,
        "old": row.old.value if row.old else None,
        "new": row.new.value if row.new else None,
        "old_sessions": row.old.sessions if row.old else 0,
        "new_sessions": row.new.sessions if row.new else 0,
    }
    compared = {f"axis_{name}" if name in outcome else name: value for name, value in row.key.columns.items()}
    return compared | outcome


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "markdown": github.markdown,
    "json": Comparison.json,
    "csv": csv_text,
}
"""The table on the terminal is none of them: `report.text` takes a width and an order too."""
