"""The summary at the end of `kbench run` and in `kbench show`: a headline with the fastest provider, tables of providers and
cases, the rows without a time, and caveats."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.analysis import Analysis
from kbench.analysis.audit import audit
from kbench.summary.sentences import caveats, headline, left_out
from kbench.summary.tables import details_table, stages_table, standings_table, times_table
from kbench.text import terminal
from kbench.text.table import Table


def print_summary(analysis: Analysis, *, most_cases: int | None = None, more: str = "", detailed: bool = False) -> None:
    """Print the summary to stdout. A terminal gets at most `most_cases` lines of cases and `more`, the command that prints all.
    `detailed` adds a table of the fastest provider of each case, which also stands in for times that are too wide."""
    timed = any(row.ms is not None and row.of_provider for row in analysis.rows)
    if findings := audit(analysis.rows):
        _print_lines("Before the numbers:", findings)
    print()
    terminal.print_paragraph(headline(analysis) if timed else "No provider was timed.")
    if analysis.cases:  # none if every row is suspect
        width = terminal.width()
        table = standings_table(analysis, width)
        if len(table.rows) > 1:
            _print_table(table)
        times = times_table(analysis, width)
        if times:
            _print_table(times, most_cases, more)
        if detailed or not times:
            _print_table(details_table(analysis, width), None if times else most_cases, more)
    measured = stages_table(analysis.rows)
    if measured.rows:
        _print_table(measured)
    if lost := left_out(analysis.rows):
        _print_lines("Not timed:", lost)
    print()
    for line in caveats(analysis):
        terminal.print_paragraph(line)


def _print_lines(title: str, lines: Sequence[str]) -> None:
    print()
    print(title)
    for line in lines:
        terminal.print_paragraph(line, indent=2)


def _print_table(table: Table, most: int | None = None, more: str = "") -> None:
    print()
    if table.title:
        terminal.print_paragraph(table.title)
    shown = table.rows if most is None or not terminal.is_terminal() else table.rows[:most]
    terminal.print_table(table.header, shown)
    if len(shown) < len(table.rows):
        terminal.print_paragraph(f"... and {len(table.rows) - len(shown)} more: {more}")
