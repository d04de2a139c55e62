"""`kbench show`: prints the summary of a results file."""

from __future__ import annotations

from typing import Annotated

import typer

from kbench.commands.options import ResultsFile, RowTerms, results_path
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
) -> None:
    """Print the fastest provider of each case, and all times.

    `kbench run` prints the same summary when it ends.
    """
    from kbench.analysis.files import load_sources
    from kbench.summary import print_summary
    from kbench.summary.sentences import counts

    [shown] = load_sources([results_path(file)], where)
    print_summary(shown.analysis, detailed=details)
    print(f"{counts(shown.rows) or 'no rows of providers'}: {shown.path}")
    for warning in shown.warnings:
        terminal.warn(warning)
