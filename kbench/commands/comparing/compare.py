"""`kbench compare` compares results files, or the providers of one file."""

from __future__ import annotations

from typing import Annotated

import typer

from kbench.commands.comparing.outputs import export_targets, report_gate, sessions_advice, write_outputs
from kbench.commands.options import (
    Exports,
    FailOn,
    GitHub,
    MarginOrNone,
    RowTerms,
    Strict,
    check_not_read,
    parse_duration,
    parse_share,
    split_words,
)
from kbench.errors import ExitStatus, UsageError
from kbench.text import terminal

DEFAULT_BUDGET = "10m"


def compare(
    files: Annotated[
        list[str],
        typer.Argument(metavar="[LABEL=]FILE.csv", help="Results files, or folders with one each, the baseline first."),
    ],
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
    margin: MarginOrNone = None,
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
    resolve: Annotated[
        bool,
        typer.Option(
            "--resolve",
            help="Measure the unclear rows of two files again, both sides in turn, and append the sessions to the files. "
            "This machine must have the device on which the files were measured. Each file's config and kernels must be "
            "unchanged. To measure two git revisions, use kbench ab.",
        ),
    ] = False,
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="DURATION",
            help="With --resolve: measure for at most about this long: 90s, 10m or 1h.",
        ),
    ] = DEFAULT_BUDGET,
    export: Exports = None,
    github: GitHub = False,
) -> ExitStatus:
    """Compare results files row by row.

    Each row gets a verdict, such as slower, faster, same, or unclear with a reason.

    Exit code: 0 comparison written; 1 a row has a verdict that --fail-on lists; 2 bad input; 3 no row could be compared, no
    row is clear, --resolve could not remeasure any row, or --strict refused a row; 130 interrupted.
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
    for target in export_targets(export or (), github):
        if target is not None:
            check_not_read("--export", target, files)
    if not resolve:
        if budget != DEFAULT_BUDGET:
            raise UsageError("--budget limits what --resolve measures; add --resolve")
        found = compare_results(*files, options=options)
        write_outputs(found, sort=sort, only=only, exports=export or (), github=github)
        return report_gate(found, github=github)
    from kbench.resolving.resolve import ENOUGH
    from kbench.resolving.resolve import resolve as measure_again

    _ = options.gate  # raises before anything is measured
    try:
        done = measure_again(files, options, parse_duration("--budget", budget), terminal.note)
    except KeyboardInterrupt:
        terminal.note("interrupted; the rows that were measured again, if any, are in the files")
        return ExitStatus.INTERRUPTED
    terminal.note(done.text)
    advice = sessions_advice(budget, enough=done.ended == ENOUGH)
    write_outputs(done.comparison, sort=sort, only=only, exports=export or (), github=github, unclear_advice=advice)
    return report_gate(done.comparison, github=github)
