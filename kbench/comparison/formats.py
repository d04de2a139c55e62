"""The formats of `--export` by name. Each makes a text of a comparison. Formats are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable

from kbench.comparison.model import Comparison


def _markdown(comparison: Comparison) -> str:
    from kbench.comparison import markdown

    return markdown.document(comparison)


def _json(comparison: Comparison) -> str:
    from kbench.comparison import json_report

    return json_report.text(comparison)


def _csv(comparison: Comparison) -> str:
    from kbench.comparison import csv_table

    return csv_table.text(comparison)


def _github(comparison: Comparison) -> str:
    from kbench.comparison import github

    return github.text(comparison)


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "markdown": _markdown,
    "json": _json,
    "csv": _csv,
    "github": _github,
}
"""The table on the terminal is none of them: `text.text` takes a width and an order too."""
