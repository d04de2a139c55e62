"""Prints a comparison, writes its exports, and turns its gate into the exit code."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.comparison.verdict import Verdict
from kbench.errors import ExitStatus, UsageError
from kbench.files import replace, writing
from kbench.text import terminal
from kbench.text.suggest import unknown
from kbench.text.words import split_words

if TYPE_CHECKING:
    from kbench.comparison.model import Comparison

EXIT_STATUSES = {
    "passed": ExitStatus.OK,
    "failed": ExitStatus.FAILED,
    "undecided": ExitStatus.NOTHING,
}

CHANGED = "changed"
"""The word of `--only` for all verdicts that report a change."""


def write_outputs(
    comparison: Comparison,
    targets: Mapping[Path | None, str],
    *,
    github: bool,
    sort: str = "verdict",
    only: str | None = None,
    unclear_advice: str = "",
) -> ExitStatus:
    """Write the exports, and print the table and the reason for an exit code that is not 0. An export to stdout takes the
    table's place. `unclear_advice` is that of `report.next_steps`."""
    from kbench.comparison import report
    from kbench.comparison.exports import FORMATS

    verdicts = _verdicts(only)
    printed = report.text(
        comparison, terminal.width(), sort, verdicts, colour=terminal.colours(), unclear_advice=unclear_advice
    )
    for path, name in targets.items():
        text = FORMATS[name](comparison)
        if path is None:
            printed = text
        else:
            replace(path, text)
    terminal.write_text(printed)
    if not comparison.passed:
        terminal.error(comparison.gate.text)
    elif not comparison.options.fail_on and os.environ.get("CI"):
        terminal.warn("without --fail-on, no verdict of a row fails the job; add --fail-on slower,missing,failed")
    if github:
        _tell_github(comparison)
    return EXIT_STATUSES[comparison.gate.outcome]


def _verdicts(text: str | None) -> list[Verdict]:
    """The verdicts that `--only` names; `changed` stands for all that report a change. Raises UsageError for other words."""
    verdicts = {CHANGED: [verdict for verdict in Verdict if not verdict.quiet]}
    verdicts |= {verdict.value: [verdict] for verdict in Verdict}
    for word in split_words(text):
        if word not in verdicts:
            raise UsageError(f"--only: {unknown('verdict', word, tuple(verdicts))}")
    return [verdict for word in split_words(text) for verdict in verdicts[word]]


def export_targets(exports: Sequence[str], github: bool) -> dict[Path | None, str]:
    """The export formats by their files, from `json=c.json`. `json=-` is stdout, which is None here. Raises UsageError, also
    for two exports to one file."""
    from kbench.comparison.exports import FORMATS

    targets: dict[Path | None, str] = {}
    for text in exports:
        name, sign, path = text.partition("=")
        if not sign or not path or name not in FORMATS:
            advice = f"the formats are {', '.join(FORMATS)}, and --github writes those of a GitHub job"
            raise UsageError(f"--export {text!r}: expected FORMAT=FILE; {advice}")
        target = None if path == "-" else Path(path)
        if target in targets:
            raise UsageError(f"--export {text!r}: the {targets[target]} export writes there too; name another file")
        if target is None and github:
            raise UsageError(f"--export {text!r}: --github writes to stdout too; give the export a file")
        targets[target] = name
    return targets


def _tell_github(comparison: Comparison) -> None:
    """Write annotations to stdout, and the files that the environment of a GitHub job names."""
    from kbench.comparison import github as actions

    terminal.write_text(actions.commands(comparison), commands=True)
    for variable, text in (
        ("GITHUB_STEP_SUMMARY", actions.markdown(comparison, actions.SUMMARY_LIMIT)),
        ("GITHUB_OUTPUT", actions.outputs(comparison)),
    ):
        if path := os.environ.get(variable):
            with writing(Path(path)), Path(path).open("a", encoding="utf-8", errors="replace", newline="") as file:
                file.write(text)
