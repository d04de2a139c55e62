"""A comparison for a GitHub Actions job: annotations in the log, the summary of the step, and outputs for later steps.

The syntax is that of https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from __future__ import annotations

from kbench.comparison import markdown, report
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.verdict import Verdict

MOST = 9
"""At most this many annotations of rows. GitHub shows ten of a kind per step and drops the rest silently; the tenth is the
summary."""

SUMMARY_LIMIT = 900_000
"""The most bytes of a step's summary. GitHub refuses more than 1 MiB."""


def text(comparison: Comparison) -> str:
    """Workflow commands: an error for each verdict that fails the gate, a warning for others that need attention, a notice
    for other changes, and the summary."""
    failing = comparison.options.failing
    messages = [] if comparison.nothing_common else _messages(comparison)
    messages.sort(key=lambda message: (message[0].verdict not in failing, message[0].verdict.rank))
    lines = []
    for row, message, _ in messages[:MOST]:
        notable = "warning" if row.verdict.needs_attention else "notice"
        level = "error" if row.verdict in failing else notable
        lines.append(_command(level, row.verdict, message, _place(row, comparison)))
    left = sum(count for _, _, count in messages[MOST:])
    more = f"; {left} more row{'s have' if left > 1 else ' has'} no annotation" if left else ""
    return "".join([*lines, _command("notice", "summary", report.headline(comparison) + more)])


def _messages(comparison: Comparison) -> list[tuple[JudgedRow, str, int]]:
    """The messages of annotations, each with its first row and the number of its rows. Rows of a provider without a time share
    a message if they have the same reason."""
    common, failing = report.common_parts(comparison), comparison.options.failing
    rows = [row for row in report.ordered(comparison) if row.verdict in failing or not row.verdict.quiet]
    messages = []
    for changed, members in report.sections(rows):
        groups = [] if changed else report.grouped(members, comparison, common)
        single = members if changed else [group.first for group in groups if group.count == 1]
        messages += [(row, f"{row.key.label}: {report.sentence(row, comparison)}", 1) for row in single]
        messages += [
            (group.first, f"{group.first.key.operator} {group.text}", group.count)
            for group in groups
            if group.count > 1
        ]
    return messages


def step_summary(comparison: Comparison) -> str:
    """Markdown for the file named in GITHUB_STEP_SUMMARY."""
    return markdown.document(comparison, SUMMARY_LIMIT)


def outputs(comparison: Comparison) -> str:
    """Lines for the file named in GITHUB_OUTPUT: whether the gate passed, the most serious verdict, and all counts."""
    counts = comparison.counts
    lines = [
        f"passed={str(comparison.passed).lower()}",
        f"verdict={next(iter(counts), 'none')}",
        f"summary={report.summary(comparison)}",
        *(f"{verdict}={counts.get(verdict, 0)}" for verdict in Verdict),
    ]
    return "".join(f"{line}\n" for line in lines)


def _place(row: JudgedRow, comparison: Comparison) -> str:
    """`file=kernels/mine.py,line=12,` if the environment file of the new side says where the provider is defined, else "".
    GitHub then shows the annotation in the diff."""
    file, _, line = comparison.places.get(row.key.provider, "").rpartition(":")
    in_repository = file and not file.startswith("/") and ".." not in file.split("/")
    return f"file={_property(file)},line={line}," if in_repository and line.isdecimal() else ""


def _command(level: str, title: str, message: str, place: str = "") -> str:
    return f"::{level} {place}title={_property(f'kbench compare: {title}')}::{_data(message)}\n"


def _data(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
