"""`kbench show`."""

from __future__ import annotations

from pathlib import Path

from kbench import sidecar, summary, table, terminal
from kbench.analysis import analyse, rows_of
from kbench.results import PROVIDER
from kbench.table import TableError
from kbench.where import Where


def show(file: str | None, where: str, *, detailed: bool) -> int:
    """Print the summary of a results file, the newest when none is named. Returns the exit code."""
    path = Path(file) if file else table.newest(Path("results"))
    frame, chosen = table.read(path), Where.parse(where)
    rows = chosen.select(frame) if chosen.terms else frame
    if chosen.terms and not (rows["role"] == PROVIDER).any():
        raise TableError(chosen.nothing(frame))
    beside = sidecar.read(path)
    found = analyse(rows_of(rows), beside.environment.get("baseline"))
    summary.print_summary(found, detailed=detailed)
    print(f"{summary.counts(found.rows) or 'no rows'}: {path}")
    for warning in [*frame.attrs["warnings"], *([beside.note] if beside.there and beside.note else [])]:
        terminal.warn(str(warning))
    return 0
