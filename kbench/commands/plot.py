"""`kbench plot`: draws results into pictures, or as text in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.options import (
    DEFAULT_MARGIN,
    Margin,
    PictureFormats,
    ResultsFiles,
    RowTerms,
    Theme,
    newest_results,
)
from kbench.errors import UsageError
from kbench.results.cells import parse_share
from kbench.text.words import split_words


def plot(
    files: ResultsFiles = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="What to draw: gbps, achieved_gbps, ms, ms_min, launch_ms, speedup, copy_fraction, tflops, sol, "
            "ulp or peak_bytes. Default: ms with "
            "--kind change; otherwise tflops if the operator declares its number of operations, and gbps if not.",
        ),
    ] = "",
    kind: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="lines, bars, heatmap or change. 'bars' has a panel for each case. 'heatmap' shows the fastest provider of "
            "each case. 'change' compares two files, the old one first.",
        ),
    ] = "lines",
    x: Annotated[
        str | None,
        typer.Option(metavar="AXIS", help="The horizontal axis. Default: the axis with the most values."),
    ] = None,
    by: Annotated[
        str,
        typer.Option(metavar="COLUMNS", help="Draw a panel for each value of these columns, for example dtype,M."),
    ] = "",
    margin: Margin = DEFAULT_MARGIN,
    where: RowTerms = "",
    term: Annotated[bool, typer.Option("--term", help="Draw as text in the terminal. Write no files.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for the pictures. Default: the folder of the CSV."),
    ] = None,
    formats: PictureFormats = "png,svg",
    theme: Theme = "light",
) -> None:
    """Draw results as lines, bars or a heat map.

    A line shows one configuration: a provider with values for its parameters. Several files share one picture. The horizontal
    axis shows one size, for example N. If the sweep also varies something else, such as M or dtype, there is a panel for each
    value of it. Many panels are spread over several pictures. A hollow point means that the overhead of the host or the timer
    is a large part of the time. A mark below the axis means that a provider was wrong, failed or declined the case. The command
    prints the paths of the pictures.
    """
    from kbench import plotting

    choices = plotting.Choices(metric, kind, x, split_words(by), theme, parse_share("--margin", margin))
    if term and out:
        raise UsageError("--term and --out cannot be combined: --term writes no files")
    if term:
        from kbench.plotting import terminal  # plotext is slow to import, and most pictures are files

        terminal.print_charts(newest_results(files), choices, where)
        return
    for path in plotting.write_pictures(newest_results(files), choices, out, split_words(formats), where=where):
        print(path)
