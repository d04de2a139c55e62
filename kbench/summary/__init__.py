"""The summary at the end of `kbench run` and in `kbench show`: a headline with the fastest provider, tables of providers and
cases, the rows without a time, and caveats."""

from __future__ import annotations

from kbench.analysis import Analysis
from kbench.analysis.audit import audit
from kbench.results.vocabulary import Role
from kbench.summary.sentences import cases_of, caveats, copy_share, counts, left_out, precision_reached, ulps
from kbench.summary.tables import Table, details_table, stages_table, standings_table, times_tables
from kbench.text import terminal

__all__ = [
    "Table", "cases_of", "caveats", "copy_share", "counts", "details_table", "left_out", "precision_reached", "print_summary",
    "stages_table", "standings_table", "times_tables", "ulps",
]  # fmt: skip


def print_summary(found: Analysis, *, most_cases: int | None = None, more: str = "", detailed: bool = False) -> None:
    """Print the summary to stdout.

    On a terminal, at most `most_cases` lines of cases are printed, followed by `more`, the command that prints all of them.
    `detailed` adds a table of the fastest provider of each case.
    """
    timed = any(row.ms is not None and row.role == Role.PROVIDER for row in found.rows)
    if findings := audit(found.rows):
        print()
        print("Before the numbers:")
        for line in findings:
            terminal.print_paragraph(line, indent=2)
    print()
    terminal.print_paragraph(found.headline() if timed else "No provider was timed.")
    if found.cases:  # none if every row is suspect
        _print_tables(found, most_cases, more, detailed=detailed)
    measured = stages_table(found.rows)
    if measured.rows:
        _print_table(measured)
    lost = left_out(found.rows)
    if lost:
        print()
        print("Not timed:")
        for line in lost:
            terminal.print_paragraph(line, indent=2)
    print()
    for line in caveats(found):
        terminal.print_paragraph(line)


def _print_tables(found: Analysis, most_cases: int | None, more: str, *, detailed: bool) -> None:
    width = terminal.width()
    table = standings_table(found, width)
    if len(table.rows) > 1:
        _print_table(table)
    by_case = times_tables(found, width)
    for table in by_case or [details_table(found, width)]:
        _print_table(table, most_cases, more)
    if detailed and by_case:
        _print_table(details_table(found, width))


def _print_table(table: Table, most: int | None = None, more: str = "") -> None:
    print()
    if table.title:
        terminal.print_paragraph(table.title)
    shown = table.rows if most is None or not terminal.is_terminal() else table.rows[:most]
    terminal.print_table(table.header, shown, numeric=table.numeric)
    if len(shown) < len(table.rows):
        terminal.print_paragraph(f"... and {len(table.rows) - len(shown)} more: {more}")
