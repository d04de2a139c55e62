"""The comparison with the baseline, in the words of `kbench compare`."""

from __future__ import annotations

from typing import Any

from kbench.comparison import report
from kbench.comparison.model import Comparison
from kbench.plotting import Choices, plot_changes
from kbench.plotting.inline import inline_svg
from kbench.reporting.table import page_table
from kbench.text.numbers import format_change, interval, probability


def comparison_part(comparison: Comparison) -> dict[str, Any]:
    """Counts, notes, differences, pictures, and the table of verdicts with those that need attention first."""
    metric = comparison.options.compared
    unit = metric.unit.replace("us", "µs")
    change = f"{metric.quantity} - drift" if report.without_drift(comparison) else metric.quantity
    common = report.common_parts(comparison)
    rows = [] if comparison.nothing_common else report.ordered(comparison)
    names = [report.name_parts(row, common) for row in rows]
    old_and_new = [report.values(row, comparison) for row in rows]
    columns = {
        "verdict": [row.verdict.value for row in rows],
        **{name: [parts.get(name, "") for parts in names] for name in (names[0] if names else ())},
        f"old ({unit})": [old for old, _ in old_and_new],
        f"new ({unit})": [new for _, new in old_and_new],
        change: ["" if row.ratio is None else format_change(row.ratio) for row in rows],
        "95 % interval": [interval(row.ci) if row.ci else "" for row in rows],
        "q": ["" if row.q is None else probability(row.q) for row in rows],
        "reason": [row.reason for row in rows],
    }
    pictures = plot_changes(comparison, Choices(kind="change")) if any(row.ratio is not None for row in rows) else []
    return {
        "title": report.title(comparison),
        "counts": comparison.counts,
        "notes": [
            *(f"{name}: {value}" for name, value in report.facts(comparison, common)),
            *report.drifts(comparison),
            report.geomean(comparison),
            *report.next_steps(comparison),
            *comparison.notes,
        ],
        "differences": [
            (difference.name, difference.old, difference.new, report.WEIGHTS[difference.weight])
            for difference in comparison.differences
        ],
        "pictures": [inline_svg(picture) for picture in pictures],
        "table": page_table(columns, ["verdict", "provider", "dtype"]),
    }
