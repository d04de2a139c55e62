"""`kbench run --repeat`: one row of a results file again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kbench.errors import ExitStatus
from kbench.text import terminal

if TYPE_CHECKING:
    from kbench.execute.run import RunOptions


def repeat_row(csv: Path, terms: str, options: RunOptions) -> ExitStatus:
    """Measure the row that the terms choose again, and print what has changed since. Raises what `measure_row_again` raises."""
    from kbench.comparison.formats import terminal as tables
    from kbench.resolving.repeat import measure_row_again

    done = measure_row_again(csv, terms, options, terminal.note)
    if done.comparison is None:
        terminal.note("interrupted; the row was not measured again")
        return ExitStatus.INTERRUPTED
    advice = "a small change does not show in one session; run the same command again to see whether the readings agree"
    print(tables.text(done.comparison, terminal.width(), colour=terminal.colours(), unclear_advice=advice), end="")
    terminal.note(f"the new results are in {done.run.csv}")
    return done.run.exit_status
