"""`kbench show`: prints the summary of a results file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.options import RowTerms, newest_results
from kbench.errors import ExitStatus
from kbench.text import terminal


def show(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE.csv", help="A results file, or a folder with one. Default: the newest file in results/."
        ),
    ] = None,
    where: RowTerms = "",
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="Also print a line for each case: the fastest provider's GB/s, its speed relative to the copy, its error "
            "and its flags.",
        ),
    ] = False,
) -> ExitStatus:
    """Print the fastest provider of each case, and all times.

    `kbench run` prints the same summary when it ends.
    """
    from kbench import summary
    from kbench.analysis import analyse
    from kbench.results.environment import read_environment
    from kbench.results.reader import read_results
    from kbench.results.row_filter import RowFilter
    from kbench.results.sources import results_file

    path = results_file(Path(newest_results([file] if file else None)[0]))
    results = read_results(path)
    chosen = RowFilter.parse(where).select_providers(results)
    environment, note = read_environment(path)
    found = analyse(chosen.rows, environment.baseline)
    summary.print_summary(found, detailed=details)
    print(f"{summary.counts(found.rows) or 'no rows of providers'}: {path}")
    for warning in [*results.warnings, *filter(None, [note])]:
        terminal.warn(warning)
    return ExitStatus.OK
