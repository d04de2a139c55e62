"""`kbench show`."""

from __future__ import annotations

from pathlib import Path

from kbench import summary
from kbench.analysis import analyse, rows_of
from kbench.errors import UsageError
from kbench.results import environment_file, table
from kbench.results.row import PROVIDER
from kbench.results.row_filter import RowFilter
from kbench.text import terminal


def show(file: str | None, where: str, *, detailed: bool) -> int:
    """Print the summary of a results file, the newest when none is named. Returns the exit code."""
    path = Path(file) if file else table.newest(Path("results"))
    frame, chosen = table.read(path), RowFilter.parse(where)
    rows = chosen.select(frame) if chosen.terms else frame
    if chosen.terms and not (rows["role"] == PROVIDER).any():
        raise UsageError(chosen.nothing(frame))
    beside = environment_file.read(path)
    found = analyse(rows_of(rows), beside.environment.get("baseline"))
    summary.print_summary(found, detailed=detailed)
    print(f"{summary.counts(found.rows) or 'no rows'}: {path}")
    for warning in [*frame.attrs["warnings"], *([beside.note] if beside.there and beside.note else [])]:
        terminal.warn(str(warning))
    return 0
