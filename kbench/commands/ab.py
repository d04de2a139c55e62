"""`kbench ab` measures two git revisions in turn and compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kbench.commands.options import (
    DEFAULT_MARGIN,
    Exports,
    FailOn,
    GitHub,
    Margin,
    OnlyProviders,
    Plugins,
    Profile,
    Sets,
    ShapesOption,
    Strict,
    parse_duration,
)
from kbench.commands.outputs import export_targets, write_outputs
from kbench.errors import ExitStatus, UsageError
from kbench.results.cells import parse_share
from kbench.text import terminal
from kbench.text.words import split_words


def ab(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The revision to compare with: a branch, tag or hash.")],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[HEAD] CONFIG",
            help="The revision to judge, and a config of the repository. Without HEAD, kbench judges the working tree with "
            "its uncommitted changes.",
        ),
    ],
    build: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Build each revision with this shell command, for example 'pip install -e .'. It runs in the revision's "
            "folder, with a virtual environment of its own.",
        ),
    ] = "",
    budget: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Measure at most about this long: 90s, 10m or 1h. Builds do not count.",
        ),
    ] = "10m",
    sets: Sets = None,
    only: OnlyProviders = None,
    profile: Profile = None,
    plugin: Plugins = None,
    shapes: ShapesOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for base.csv and head.csv.")] = Path(
        "results/ab"
    ),
    margin: Margin = DEFAULT_MARGIN,
    fail_on: FailOn = None,
    strict: Strict = False,
    export: Exports = None,
    github: GitHub = False,
) -> ExitStatus:
    """Measure two git revisions in turn and compare them.

    Sessions of both revisions alternate on this machine until every row is clear, or until the budget is spent. kbench checks
    each revision out in a temporary folder, or copies the working tree there. It does not change the working tree.

    Exit code: 0 comparison written; 1 a row has a verdict that --fail-on lists; 2 bad input; 3 a build failed, nothing could
    be measured, compared or decided, or --strict refused a row; 130 interrupted.
    """
    from kbench.comparison.model import CompareOptions
    from kbench.revisions.ab import MOST_SESSIONS, measure_revisions

    if len(words) > 2:
        remedy = "if some of them are values of an option, repeat the option: --set N=64,128 --set M=32"
        raise UsageError(f"expected BASE [HEAD] CONFIG, but got {len(words) + 1} words; {remedy}")
    head = words[0] if len(words) == 2 else None
    comparing = CompareOptions(
        margin=parse_share("--margin", margin),
        fail_on=tuple(split_words(fail_on)),
        strict=strict,
    )
    targets = export_targets(export or (), github)
    arguments = [
        *(word for change in sets or () for word in ("--set", change)),
        *(word for names in only or () for word in ("--only", names)),
        *(["--profile", profile] if profile is not None else []),
        # all revisions read the same shapes
        *(["--shapes", str(shapes.absolute())] if shapes is not None else []),
    ]
    budget_s, plugins = parse_duration("--budget", budget), tuple(map(Path, plugin or ()))
    try:
        comparison = measure_revisions(
            base,
            head,
            Path(words[-1]),
            comparing,
            arguments=arguments,
            plugins=plugins,
            build=build,
            budget_s=budget_s,
            out=out,
        )
    except KeyboardInterrupt:
        terminal.note(f"interrupted; the sessions that had ended, if any, are in {out}")
        return ExitStatus.INTERRUPTED
    sessions = f"more sessions, with a larger --budget than {budget} (at most {MOST_SESSIONS} on a side)"
    advice = f"unclear rows may need {sessions}, or a wider --margin"
    return write_outputs(comparison, targets, github=github, unclear_advice=advice)
