"""`kbench compare` compares results files, or the providers of one file. `kbench ab` measures two git revisions first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbench.commands.options import (
    Exports,
    FailOn,
    GitHub,
    Margin,
    OnlyProviders,
    Profile,
    RowTerms,
    Sets,
    Strict,
    parse_duration,
    parse_share,
    split_words,
)
from kbench.comparison.verdict import Verdict
from kbench.errors import ExitStatus, ResultsError, UsageError
from kbench.files import replace
from kbench.text import terminal
from kbench.text.suggest import unknown

if TYPE_CHECKING:
    from kbench.comparison.model import Comparison

EXIT_STATUSES = {"passed": ExitStatus.OK, "failed": ExitStatus.FAILED, "undecided": ExitStatus.NOTHING}

CHANGED = "changed"
"""The word of `--only` for all verdicts that report a change."""


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
    compared, or --strict refused one.
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
            "--build",
            metavar="COMMAND",
            help="Build each revision with this shell command, for example 'pip install -e .'. It runs in the revision's "
            "folder, with a virtual environment of its own.",
        ),
    ] = "",
    budget: Annotated[
        str,
        typer.Option(
            "--budget",
            metavar="DURATION",
            help="Measure at most about this long: 90s, 10m or 1h. Builds do not count.",
        ),
    ] = "10m",
    sets: Sets = None,
    only: OnlyProviders = None,
    profile: Profile = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for base.csv and head.csv.")] = Path(
        "results/ab"
    ),
    margin: Margin = None,
    fail_on: FailOn = None,
    strict: Strict = False,
    export: Exports = None,
    github: GitHub = False,
) -> ExitStatus:
    """Measure two git revisions in turn and compare them.

    Sessions of both revisions alternate on this machine until no row is unclear or the budget is spent. Each revision has
    a worktree in a temporary folder. kbench does not change the working tree.

    Exit code: 0 comparison written, 1 a row has a verdict that --fail-on lists, 2 bad input, 3 a build failed, nothing could
    be measured, no row could be compared, or --strict refused one, 130 interrupted.
    """
    from kbench.comparison.options import CompareOptions
    from kbench.revisions.alternate import MOST_SESSIONS
    from kbench.revisions.measure import RevisionOptions, measure_revisions

    if len(words) > 2:
        remedy = "repeat an option for each of its values: --set N=64 --set M=32"
        raise UsageError(f"expected BASE [HEAD] CONFIG, but got {len(words) + 1} words; {remedy}")
    head = words[0] if len(words) == 2 else None
    comparing = CompareOptions(
        margin=None if margin is None else parse_share("--margin", margin),
        fail_on=tuple(split_words(fail_on)),
        strict=strict,
    )
    _ = comparing.gate  # raises before anything is measured
    export_targets(export or (), github)
    arguments = [
        *(word for each in sets or () for word in ("--set", each)),
        *(word for each in only or () for word in ("--only", each)),
        *(["--profile", profile] if profile is not None else []),
    ]
    options = RevisionOptions(base, head, Path(words[-1]), arguments, build, parse_duration("--budget", budget), out)
    try:
        done = measure_revisions(options, comparing, terminal.note)
    except KeyboardInterrupt:
        terminal.note(f"interrupted; the sessions that had ended, if any, are in {out}")
        return ExitStatus.INTERRUPTED
    counts = " and ".join(f"{count} session{'s' * (count != 1)} of {label}" for label, count in done.sessions.items())
    terminal.note(f"measured {counts}: {done.ended}")
    terminal.note(f"the results are in {out / 'base.csv'} and {out / 'head.csv'}")
    advice = f"unclear rows may need more sessions: give a larger --budget than {budget}"
    if min(done.sessions.values()) >= MOST_SESSIONS:
        advice = "no more sessions can be measured for unclear rows; see the reason of each row"
    write_outputs(
        done.comparison, sort="verdict", only=None, exports=export or (), github=github, unclear_advice=advice
    )
    return report_gate(done.comparison, github=github)


def write_outputs(
    found: Comparison, *, sort: str, only: str | None, exports: Sequence[str], github: bool, unclear_advice: str = ""
) -> None:
    """Write the exports and print the table. An export to stdout takes the table's place. Files that have nothing in common
    give no table: `report_gate` prints an error about them. `unclear_advice` is that of `report_lines.next_steps`."""
    from kbench.comparison.formats import FORMATS
    from kbench.comparison.formats import terminal as tables

    shown = _verdicts("--only", only)
    targets = export_targets(exports, github)
    printed = tables.text(
        found, terminal.width(), sort, shown, colour=terminal.colours(), unclear_advice=unclear_advice
    )
    if found.nothing_common:
        printed = ""
    for path, name in targets.items():
        text = FORMATS[name](found)
        if path is None:
            printed = text
        else:
            _replace(path, text)
    terminal.write_text(printed, commands=targets.get(None) == "github")


def report_gate(found: Comparison, *, github: bool) -> ExitStatus:
    """Returns the exit code. When it is not 0, prints the reason to stderr."""
    result = found.gate.judge(found)
    if not result.passed:
        terminal.error(result.text)
    elif not found.gate.fail_on and os.environ.get("CI"):
        terminal.warn(
            "without --fail-on, the exit code does not depend on the verdicts; add --fail-on slower,missing,failed"
        )
    if github:
        _tell_github(found)
    return EXIT_STATUSES[result.outcome]


def _verdicts(option: str, text: str | None) -> list[Verdict]:
    """The verdicts that an option names; `changed` stands for all that report a change. Raises UsageError for an unknown
    word."""
    known = {CHANGED: [verdict for verdict in Verdict if not verdict.quiet]}
    known |= {verdict.value: [verdict] for verdict in Verdict}
    for word in split_words(text):
        if word not in known:
            raise UsageError(f"{option}: {unknown('verdict', word, tuple(known))}")
    return [verdict for word in split_words(text) for verdict in known[word]]


def export_targets(exports: Sequence[str], github: bool) -> dict[Path | None, str]:
    """The export formats by their files, from `json=c.json`. `json=-` is stdout, which is None here. Raises UsageError, also
    for two exports to one file."""
    from kbench.comparison.formats import FORMATS

    found: dict[Path | None, str] = {}
    for text in exports:
        name, sign, path = text.partition("=")
        if not sign or not path or name not in FORMATS:
            raise UsageError(f"--export {text!r}: expected FORMAT=FILE; the formats are {', '.join(FORMATS)}")
        target = None if path == "-" else Path(path)
        if target in found:
            raise UsageError(
                f"--export {text!r}: the {found[target]} export writes there too; give each export its own file"
            )
        if target is None and github:
            raise UsageError(f"--export {text!r}: --github writes to stdout too; give the export a file")
        found[target] = name
    return found


def _replace(path: Path, text: str) -> None:
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, text.encode("utf-8", "replace"))


def _append(path: Path, text: str) -> None:
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror or error}); choose another place") from None


def _tell_github(found: Comparison) -> None:
    """Write annotations to stdout, and the files that the environment of a GitHub job names."""
    from kbench.comparison.formats import github as actions

    terminal.write_text(actions.text(found), commands=True)
    for variable, text in (
        ("GITHUB_STEP_SUMMARY", actions.step_summary(found)),
        ("GITHUB_OUTPUT", actions.outputs(found)),
    ):
        if path := os.environ.get(variable):
            _append(Path(path), text)
