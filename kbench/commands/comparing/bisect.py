"""`kbench bisect` finds the commit that made a row slower or faster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbench.commands.comparing.revision_options import Build, run_arguments
from kbench.commands.options import Margin, OnlyProviders, Profile, Sets, parse_duration, parse_share
from kbench.errors import ExitStatus
from kbench.text import terminal

if TYPE_CHECKING:
    from kbench.revisions.bisecting.bisected import Bisected


def bisect(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A config of the repository.")],
    good: Annotated[
        str, typer.Option("--good", metavar="REV", help="A revision before the change: a branch, tag or hash.")
    ],
    bad: Annotated[str, typer.Option("--bad", metavar="REV", help="A later revision, after the change.")],
    row: Annotated[
        str,
        typer.Option(
            "--row",
            metavar="TERMS",
            help="The row that changed, for example 'provider=triton,N=4096'. Must match one row. kbench measures only the "
            "provider and the sizes that the terms name.",
        ),
    ],
    build: Build = "",
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="DURATION",
            help="Measure each revision at most about this long: 90s, 10m or 1h. Builds do not count.",
        ),
    ] = "10m",
    margin: Margin = None,
    sets: Sets = None,
    only: OnlyProviders = None,
    profile: Profile = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results of every step.")
    ] = Path("results/bisect"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON (see kbench schema bisect).")
    ] = False,
) -> ExitStatus:
    """Find the commit that made a row slower or faster.

    kbench first checks that the bad revision differs from the good one. Then it halves the commits between them, as git bisect
    does. For each commit, it alternates sessions of this commit and of the good revision, as kbench ab does. It skips commits
    that cannot be built or measured, and commits whose row stays unclear. At the end, kbench confirms the result: it alternates
    sessions of the commit that it found with sessions of that commit's parent. kbench does not change the working tree.

    Exit code: 0 commit found; 1 not found: the two revisions do not differ, or the change could not be narrowed down to one
    commit; 2 bad input; 3 the good or the bad revision could not be built or measured; 130 interrupted.
    """
    from kbench.revisions.bisecting.bisect import BisectOptions, bisect_revisions

    options = BisectOptions(
        good,
        bad,
        config,
        row,
        run_arguments(sets, only, profile),
        build,
        None if margin is None else parse_share("--margin", margin),
        parse_duration("--budget", budget),
        out,
    )
    try:
        found = bisect_revisions(options, terminal.note)
    except KeyboardInterrupt:
        terminal.note(f"interrupted; the results of the steps that had ended, if any, are in {out}")
        return ExitStatus.INTERRUPTED
    terminal.note(f"the results of every step are in {out}")
    _print(found, as_json=as_json)
    return ExitStatus.OK if found.found else ExitStatus.FAILED


def _print(found: Bisected, *, as_json: bool) -> None:
    if as_json:
        from kbench.revisions.bisecting import json_document

        print(json_document.text(found))
        return
    from kbench.revisions.bisecting.bisect_lines import HEADER, result_lines, step_cells

    for line in result_lines(found):
        terminal.print_paragraph(line)
    print()
    terminal.print_table(HEADER, step_cells(found), numeric=("change",))
    print("\nto measure it again:")
    for command in found.repeat:
        print(f"  {terminal.one_line(command)}")
