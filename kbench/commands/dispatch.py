"""`kbench dispatch`: the fastest provider by shape, as code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.options import ResultsFiles, RowTerms, check_not_read, newest_results
from kbench.errors import UsageError
from kbench.results.cells import parse_share
from kbench.text import terminal


def dispatch(
    files: ResultsFiles = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE.py",
            help="Write the function into this file, and a map as PNG beside it. Default: print the function and write "
            "nothing.",
        ),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Use at most N providers. A provider with two sets of parameter values counts as two.",
        ),
    ] = 3,
    margin: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="The function switches to another provider only if that one is faster by more than this share.",
        ),
    ] = "3%",
    holdout: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="Also cross-validate the decision: hold out about this share of the shapes at a time, decide from the other "
            "shapes, and report the regret on those that were held out. The written function uses all shapes. 0 skips this "
            "test.",
        ),
    ] = "25%",
    where: RowTerms = "",
) -> None:
    """Turn results into a function that chooses a provider.

    The function names the fastest provider for a shape. It decides by the dtype, and by a few thresholds on sizes and on
    products of two sizes. The written file needs neither kbench nor torch. The function does not branch on a difference that
    may be noise. A provider is never chosen in a case where it failed, or where it was wrong, suspect or unsupported. The
    command prints the function and its regret: how much slower the chosen provider is than the fastest one, in percent.
    """
    from kbench.dispatching.dispatch import dispatch as find

    if out is not None and out.suffix != ".py":
        raise UsageError(f"--out {out} does not end in .py; name the Python file to write, for example dispatch.py")
    shares = {
        "margin": parse_share("--margin", margin),
        "holdout": parse_share("--holdout", holdout),
    }
    sources = newest_results(files)
    if out is not None:
        check_not_read("--out", out, sources)
    dispatched = find(sources, limit=limit, **shares, where=where)
    providers = ", ".join(dispatched.decision.providers)
    print(f"providers: {providers}; {dispatched.decision.general} has a trusted time in every case")
    for line in (*dispatched.decision.lines, *dispatched.report_lines):
        print(line)
    for path in dispatched.write(out) if out is not None else []:
        print(path)
    for warning in dispatched.warnings:
        terminal.warn(warning)
    if out is not None and not dispatched.panels:
        terminal.warn("no map was drawn: a map needs a size that varies and is never 0")
