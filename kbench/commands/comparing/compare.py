"""`kbench compare` compares results files, or the providers of one file."""

from __future__ import annotations

from typing import Annotated

import typer

from kbench.commands.comparing.outputs import report_gate, write_outputs
from kbench.commands.options import (
    Exports,
    FailOn,
    GitHub,
    Margin,
    RowTerms,
    Strict,
    parse_share,
    split_words,
)
from kbench.errors import ExitStatus


def compare(
    files: Annotated[list[str], typer.Argument(metavar="[LABEL=]FILE.csv", help="Results files, the baseline first.")],
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="LABEL", help="Compare with this file or provider.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="file|provider", help="Compare files, or the providers of one file.")
    ] = "file",
    where: RowTerms = "",
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="The column to compare: ms, ms_min, launch_ms, gbps, achieved_gbps, copy_fraction, tflops or sol.",
        ),
    ] = "ms",
    margin: Margin = None,
    vary: Annotated[
        str | None,
        typer.Option(
            "--vary",
            metavar="NAMES",
            help="Allow these differences between the files, for example torch,driver,device.",
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            "--sort", metavar="ORDER", help="Sort the table by verdict, key (sizes and dtype), change or time."
        ),
    ] = "verdict",
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
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
    """Compare results files row by row.

    Each row gets a verdict, such as slower, faster, same, or unclear with a reason.

    Exit code: 0 comparison written, 1 a row has a verdict that --fail-on lists, 2 bad input, 3 no row could be
    compared, or --strict refused one, 130 interrupted.
    """
    from kbench.comparison.compare import compare_results
    from kbench.comparison.options import CompareOptions

    options = CompareOptions(
        by,
        baseline,
        where,
        metric,
        None if margin is None else parse_share("--margin", margin),
        tuple(split_words(vary)),
        tuple(split_words(fail_on)),
        strict,
    )
    found = compare_results(*files, options=options)
    write_outputs(found, sort=sort, only=only, exports=export or (), github=github)
    return report_gate(found, github=github)
