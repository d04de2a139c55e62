"""`kbench compare` compares two results files."""

from __future__ import annotations

from typing import Annotated

import typer

from kbench.commands.options import (
    DEFAULT_MARGIN,
    Exports,
    FailOn,
    GitHub,
    Margin,
    RowTerms,
    Strict,
    check_not_read,
)
from kbench.commands.outputs import export_targets, write_outputs
from kbench.errors import ExitStatus
from kbench.results.cells import parse_share
from kbench.text.words import split_words


def compare(
    old: Annotated[
        str,
        typer.Argument(metavar="[LABEL=]OLD.csv", help="The results to compare with: a file, or a folder with one."),
    ],
    new: Annotated[str, typer.Argument(metavar="[LABEL=]NEW.csv", help="The results to judge.")],
    where: RowTerms = "",
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The column to compare: ms, ms_min, launch_ms, gbps, achieved_gbps, speedup, copy_fraction, tflops "
            "or sol.",
        ),
    ] = "ms",
    margin: Margin = DEFAULT_MARGIN,
    vary: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Allow these differences between the files, for example torch,driver,device.",
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(metavar="ORDER", help="Sort the table by verdict, key (sizes and dtype) or change."),
    ] = "verdict",
    only: Annotated[
        str | None,
        typer.Option(
            metavar="VERDICTS",
            help="Show only rows with these verdicts, for example slower,missing. 'changed' stands for all"
            " except same, unclear and untimed.",
        ),
    ] = None,
    fail_on: FailOn = None,
    strict: Strict = False,
    export: Exports = None,
    github: GitHub = False,
) -> ExitStatus:
    """Compare two results files row by row.

    Each row gets a verdict, such as slower, faster, same, or unclear with a reason.

    Exit code: 0 comparison written; 1 a row has a verdict that --fail-on lists; 2 bad input; 3 nothing could be compared or
    decided, or --strict refused a row.
    """
    from kbench.comparison.compare import compare_results
    from kbench.comparison.model import CompareOptions

    share = parse_share("--margin", margin)
    options = CompareOptions(where, metric, share, tuple(split_words(vary)), tuple(split_words(fail_on)), strict)
    targets = export_targets(export or (), github)
    for target in filter(None, targets):
        check_not_read("--export", target, [old, new])
    comparison = compare_results(old, new, options=options)
    return write_outputs(comparison, targets, github=github, sort=sort, only=only)
