"""`kbench show`: prints the summary of a results file."""

from __future__ import annotations

from typing import Annotated

import typer

from kbench.commands.options import ResultsFile, RowTerms, results_path
from kbench.errors import ExitStatus
from kbench.text import terminal


def show(
    file: ResultsFile = None,
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

    path = results_path(file)
    results = read_results(path)
    chosen = RowFilter.parse(where).select_providers(results)
    environment, note = read_environment(path)
    analysis = analyse(chosen.rows, environment.baseline)
    summary.print_summary(analysis, detailed=details)
    print(f"{summary.counts(analysis.rows) or 'no rows of providers'}: {path}")
    for warning in [*results.warnings, *filter(None, [note])]:
        terminal.warn(warning)
    return ExitStatus.OK
