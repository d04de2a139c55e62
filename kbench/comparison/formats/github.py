"""A comparison for a GitHub Actions job: annotations in the log, the summary of the step, and outputs for later steps.

The syntax is that of https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from collections.abc import Collection, Sequence  # no `annotations` from __future__: this module has its own

from kbench.comparison.formats import markdown
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation.groups import grouped, sections
from kbench.comparison.presentation.report_lines import headline, quantity_of, summary
from kbench.comparison.presentation.row_names import common_parts, full_name, ordered
from kbench.comparison.presentation.wording import sentence
from kbench.comparison.verdict import Verdict

MOST = 9
"""At most this many annotations of rows. GitHub shows ten of a kind per step and drops the rest silently; the tenth is the
summary."""

ANNOTATION_LIMIT = 2_000
"""The most characters of an annotation's message."""

SUMMARY_LIMIT = 900_000
"""The most bytes of a step's summary. GitHub refuses more than 1 MiB."""


def text(comparison: Comparison) -> str:
    """Workflow commands: an error for each verdict that fails the gate, a warning for others that need attention, a notice
    for other changes, and the summary."""
    fail_on = comparison.gate.fail_on
    telling = [row for row in ordered(comparison) if row.verdict in fail_on or not row.verdict.quiet]
    told = [] if comparison.nothing_common else _told(telling, comparison)
    told.sort(key=lambda each: each[0].verdict not in fail_on)
    lines = [
        _command(_level(row, fail_on), row.verdict, message, _place(row, comparison)) for row, message, _ in told[:MOST]
    ]
    left = sum(count for _, _, count in told[MOST:])
    more = f"; {left} more row{'s have' if left > 1 else ' has'} no annotation" if left else ""
    return "".join([*lines, _command("notice", "summary", headline(comparison) + more)])


def _told(telling: Sequence[JudgedRow], comparison: Comparison) -> list[tuple[JudgedRow, str, int]]:
    """The messages of annotations, each with its first row and the number of its rows. Rows of a provider without a time share
    a message if they have the same reason."""
    shown, common = quantity_of(comparison), common_parts(comparison)
    found = []
    for changed, rows in sections(telling):
        groups = [] if changed else grouped(rows, comparison, common)
        single = rows if changed else [group.first for group in groups if group.count == 1]
        found += [(row, f"{full_name(row, comparison)}: {sentence(row, shown)}", 1) for row in single]
        found += [
            (group.first, f"{group.first.key.operator} {group.text}", group.count)
            for group in groups
            if group.count > 1
        ]
    return sorted(found, key=lambda each: each[0].verdict.rank)


def step_summary(comparison: Comparison) -> str:
    """Markdown for the file named in GITHUB_STEP_SUMMARY."""
    return markdown.document(comparison, SUMMARY_LIMIT)


def outputs(comparison: Comparison) -> str:
    """Lines for the file named in GITHUB_OUTPUT: whether the gate passed, the most serious verdict, and all counts."""
    counts, passed = comparison.counts, comparison.gate.judge(comparison).passed
    found = {"passed": str(passed).lower(), "verdict": next(iter(counts), "none"), "summary": summary(comparison)}
    found |= {verdict: str(counts.get(verdict, 0)) for verdict in Verdict}
    return "".join(f"{name}={value}\n" for name, value in found.items())


def _level(row: JudgedRow, fail_on: Collection[str]) -> str:
    return "error" if row.verdict in fail_on else "warning" if row.verdict.needs_attention else "notice"


def _place(row: JudgedRow, comparison: Comparison) -> str:
    """`file=kernels/mine.py,line=12,` if the contender's environment file says where the provider is defined, else "". GitHub
    then shows the annotation in the diff."""
    provider = row.key.provider or row.contender.partition("[")[0]
    file, _, line = comparison.places.get(row.contender, {}).get(provider, "").rpartition(":")
    known = file and not file.startswith("/") and ".." not in file.split("/") and line.isdecimal() and len(line) < 8
    return f"file={_property(file)},line={line}," if known else ""


def _command(level: str, title: str, message: str, place: str = "") -> str:
    return f"::{level} {place}title={_property(f'kbench compare: {title}')}::{_data(message)}\n"


def _data(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
