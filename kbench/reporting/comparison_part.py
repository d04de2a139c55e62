"""The comparison with the baseline, in the words of `kbench compare`."""

from __future__ import annotations

import base64
import math

from kbench.comparison.model import Comparison
from kbench.comparison.presentation import report_lines, row_names
from kbench.comparison.presentation.wording import interval, probability
from kbench.comparison.verdict import Verdict
from kbench.plotting import Choices, plot_changes, rendered
from kbench.plotting.style.theme import THEMES
from kbench.reporting.json_columns import Json, number_column, word_column
from kbench.results.case import LIKE_NUMBER

MOST_DIGITS = 20
"""A longer number is text, not a size."""


def comparison_part(comparison: Comparison) -> Json:
    """Counts, notes, differences, pictures, and the table of verdicts with those that need attention first."""
    shown = report_lines.quantity_of(comparison)
    unit = shown.unit.replace("us", "µs")
    common = row_names.common_parts(comparison)
    ordered = [] if comparison.nothing_common else row_names.ordered(comparison)
    names = [row_names.distinguishing_parts(row, comparison, common) for row in ordered]
    sides = [(row.old.value if row.old else None, row.new.value if row.new else None) for row in ordered]
    columns = [
        word_column("verdict", (row.verdict.value for row in ordered)),
        *(word_column(name, (_size(parts.get(name, "")) for parts in names)) for name in (names[0] if names else ())),
        number_column("old", (old for old, _ in sides), f"old ({unit})", shown.unit),
        number_column("new", (new for _, new in sides), f"new ({unit})", shown.unit),
        number_column(
            "change", (None if row.ratio is None else row.ratio - 1 for row in ordered), shown.head, "change"
        ),
        word_column("interval", (interval(row.ci) if row.ci else "" for row in ordered), "95 % interval"),
        word_column("q", ("" if row.q is None else probability(row.q) for row in ordered)),
        word_column("reason", (row.reason for row in ordered)),
    ]
    return {
        "title": report_lines.title(comparison),
        "summary": report_lines.headline(comparison),
        "counts": [
            {"word": verdict.value, "glyph": verdict.glyph, "count": count}
            for verdict, count in comparison.counts.items()
        ],
        "notes": [
            *(f"{name}: {value}" for name, value in report_lines.facts(comparison, common)),
            *report_lines.drifts(comparison),
            *report_lines.geomeans(comparison),
            *report_lines.next_steps(comparison),
            *comparison.notes,
        ],
        "differences": [
            {
                "name": found.name,
                "old": found.old,
                "new": found.new,
                "weight": report_lines.WEIGHTS[found.weight],
            }
            for found in comparison.differences
        ],
        "glyphs": {verdict.value: verdict.glyph for verdict in Verdict},
        "pictures": _pictures(comparison),
        "table": {"count": len(ordered), "columns": columns},
    }


def _pictures(comparison: Comparison) -> list[Json]:
    """The pictures of the changes. Each is a mapping from the name of a theme to an SVG as a data URL.

    There are none where no row has a time on both sides.
    """
    if not any(row.ratio is not None for row in comparison.rows):
        return []
    by_theme = [
        [
            (name, rendered(picture, "svg", name))
            for picture in plot_changes(comparison, Choices(kind="change", theme=name))
        ]
        for name in THEMES
    ]
    return [
        {name: f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}" for name, svg in same}
        for same in zip(*by_theme, strict=True)
    ]


def _size(text: str) -> int | float | str:
    """The number in a text that is a size or a scalar, so that the page sorts and aligns it as a number; else the text."""
    if len(text) >= MOST_DIGITS or not LIKE_NUMBER.fullmatch(text):
        return text
    if text.isdecimal():
        return int(text)
    return float(text) if math.isfinite(float(text)) else text
