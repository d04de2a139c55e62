"""`kbench report`: writes an HTML page about results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.options import ResultsFiles, RowTerms, newest_results
from kbench.errors import ExitStatus


def report(
    files: ResultsFiles = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="File for the page.")] = Path("report.html"),
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="OLD.csv", help="Compare with these results, row by row.")
    ] = None,
    where: RowTerms = "",
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = "",
) -> ExitStatus:
    """Write an HTML page about results.

    The page has the fastest providers, an interactive plot, all rows, failures, the machine and the method. It is one file
    and needs no network.
    """
    from kbench import reporting

    print(reporting.write_report(newest_results(files), out, baseline=baseline, where=where, title=title))
    return ExitStatus.OK
