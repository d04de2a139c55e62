"""A comparison for a job of GitHub Actions: annotations in the log, the step's summary, and outputs for later steps.

The syntax is that of https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from collections.abc import Collection  # nothing from __future__ here: `annotations` are this module's own

from kbench.comparison import Comparison
from kbench.comparison.formats import markdown
from kbench.comparison.formats.header import summary
from kbench.comparison.formats.rows import QUIET, full_name, ordered
from kbench.comparison.formats.words import quantity, sentence
from kbench.comparison.verdict import WORDS, Verdict

MOST = 9
"""Annotations of rows. GitHub shows ten of a kind per step and drops the others without a word; the tenth is the summary."""

SUMMARY_LIMIT = 900_000
"""Bytes of a step's summary. GitHub refuses one of more than 1 MiB."""

WARNINGS = frozenset({"slower", "failed", "missing", "suspect"})


def text(comparison: Comparison) -> str:
    return annotations(comparison, ())


def annotations(comparison: Comparison, fail_on: Collection[str]) -> str:
    """Workflow commands: an error for a verdict in `fail_on`, a warning for others that want attention, a notice for other
    changes, and the summary."""
    told = [row for row in ordered(comparison) if row.word in fail_on or row.word not in QUIET]
    told.sort(key=lambda row: row.word not in fail_on)
    shown = quantity(comparison.rules.metric)
    lines = [
        _command(_level(row, fail_on), row.word, f"{full_name(row, comparison)}: {sentence(row, shown)}")
        for row in told[:MOST]
    ]
    more = f"; and {len(told) - MOST} more" if len(told) > MOST else ""
    return "".join([*lines, _command("notice", "summary", summary(comparison) + more)])


def step_summary(comparison: Comparison) -> str:
    """Markdown for the file that GITHUB_STEP_SUMMARY names."""
    return markdown.document(comparison, SUMMARY_LIMIT)


def outputs(comparison: Comparison, passed: bool) -> str:
    """Lines for the file that GITHUB_OUTPUT names: whether the gate passed, the gravest verdict, and all counts."""
    counts = comparison.counts
    found = {"passed": str(passed).lower(), "verdict": next(iter(counts), "none"), "summary": summary(comparison)}
    found |= {word: str(counts.get(word, 0)) for word in WORDS}
    return "".join(f"{name}={value}\n" for name, value in found.items())


def _level(row: Verdict, fail_on: Collection[str]) -> str:
    return "error" if row.word in fail_on else "warning" if row.word in WARNINGS else "notice"


def _command(level: str, title: str, message: str) -> str:
    return f"::{level} title=kbench compare%3A {title}::{_escape(message)}\n"


def _escape(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
