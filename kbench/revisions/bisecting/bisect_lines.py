"""What `kbench bisect` prints about its result."""

from __future__ import annotations

from kbench.comparison.model import JudgedRow
from kbench.comparison.presentation.wording import format_change, interval
from kbench.revisions.bisecting.bisected import Bisected, Compared, Ending, StepMark
from kbench.revisions.repository import CommitInfo

HEADER = ("revision", "date", "verdict", "change", "95% interval", "subject")


def result_lines(found: Bisected) -> list[str]:
    """The answer: the commit and the size of its change, or why no commit was found."""
    lines = [f"{found.row}: {found.bad.short} against {found.good.short}{_size(found.first)}"]
    if found.found and found.confirming:
        confirmed = found.confirming
        return [
            f"first {found.sought} commit: {_commit(found.found)}",
            f"against its parent {confirmed.against.short}{_size(confirmed)}",
            *lines,
        ]
    if found.ending is Ending.SEVERAL:
        listed = [f"  {_commit(each)}" for each in found.candidates]
        return [f"not found: {found.why}; the first {found.sought} commit is one of these:", *listed, *lines]
    return [f"not found: {found.why}", *lines]


def step_cells(found: Bisected) -> list[list[str]]:
    """The cells of a line for each step, in the columns of HEADER."""
    steps = [*found.steps, *([found.confirming] if found.confirming else [])]
    return [_cells(step, found) for step in steps]


def _cells(step: Compared, found: Bisected) -> list[str]:
    verdict = step.row.verdict.value if step.row else StepMark.SKIPPED.value
    told = "" if step.against == found.good else f" (against {step.against.short})"
    return [step.commit.short, step.commit.date, verdict, *_change(step.row), step.commit.subject + told]


def _change(row: JudgedRow | None) -> tuple[str, str]:
    if row is None or row.ratio is None or row.ci is None:
        return "", ""
    return format_change(row.ratio), interval(row.ci)


def _size(step: Compared) -> str:
    change, ends = _change(step.row)
    return f": {change} {ends}" if change else ""


def _commit(commit: CommitInfo) -> str:
    return f"{commit.short} {commit.subject} ({commit.author}, {commit.date})"
