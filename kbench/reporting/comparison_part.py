"""The comparison with the baseline, in the words of `kbench compare`."""

from __future__ import annotations

from typing import Any

from kbench.comparison import report
from kbench.comparison.model import Comparison
from kbench.plotting import Choices, plot_changes
from kbench.reporting.inline import inline_svg
from kbench.reporting.table import page_table


def comparison_part(comparison: Comparison) -> dict[str, Any]:
    """Counts, notes, differences, pictures, and the table of verdicts with those that need attention first."""
    unit = comparison.options.compared.unit.replace("us", "µs")
    rows = [] if comparison.nothing_common else report.ordered(comparison)
    names = [report.name_parts(row, comparison.common) for row in rows]
    numbers = [report.row_numbers(row, comparison) for row in rows]
    heads = (f"old ({unit})", f"new ({unit})", report.changed_quantity(comparison), "95 % interval", "q")
    columns = [
        ("verdict", [row.verdict.value for row in rows]),
        *((name, [parts.get(name, "") for parts in names]) for name in (names[0] if names else ())),
        *((head, [cells[place] for cells in numbers]) for place, head in enumerate(heads)),
        ("reason", [row.reason for row in rows]),
    ]
    pictures = plot_changes(comparison, Choices(kind="change")) if any(row.ratio is not None for row in rows) else []
    return {
        "title": report.title(comparison),
        "counts": comparison.counts,
        "notes": [
            *(f"{name}: {value}" for name, value in report.facts(comparison).items()),
            *report.drifts(comparison),
            report.geomean(comparison),
            *report.next_steps(comparison),
            *comparison.notes,
        ],
        "differences": report.difference_table(comparison).rows,
        "pictures": [inline_svg(picture) for picture in pictures],
        "table": page_table(columns, ["verdict", "provider", "dtype"]),
    }
