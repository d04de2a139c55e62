"""A comparison for a job of GitHub Actions: annotations in the log, the step's summary, and outputs for later steps.

The syntax is that of https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from collections.abc import Collection, Sequence  # nothing from __future__ here: `annotations` are this module's own

from kbench.comparison import Comparison
from kbench.comparison.formats import markdown
from kbench.comparison.presentation.groups import grouped, sections
from kbench.comparison.presentation.header import headline, quantity_of, summary
from kbench.comparison.presentation.rows import QUIET, full_name, ordered, shared
from kbench.comparison.presentation.words import plain, sentence
from kbench.comparison.verdict import WORDS, Verdict
from kbench.text.printable import printable

MOST = 9
"""Annotations of rows. GitHub shows ten of a kind per step and drops the others without a word; the tenth is the summary."""

MESSAGE_LIMIT = 2_000
"""Characters of an annotation's message."""

SUMMARY_LIMIT = 900_000
"""Bytes of a step's summary. GitHub refuses one of more than 1 MiB."""

WARNINGS = frozenset({"slower", "failed", "missing", "suspect"})


def text(comparison: Comparison) -> str:
    """Workflow commands: an error for a verdict that fails the gate, a warning for others that want attention, a notice for
    other changes, and the summary."""
    fail_on = comparison.gate.fail_on
    telling = [row for row in ordered(comparison) if row.word in fail_on or row.word not in QUIET]
    told = [] if comparison.nothing_common else _told(telling, comparison)
    told.sort(key=lambda each: each[0].word not in fail_on)
    lines = [
        _command(_level(row, fail_on), row.word, message, _place(row, comparison)) for row, message, _ in told[:MOST]
    ]
    left = sum(count for _, _, count in told[MOST:])
    more = f"; and {left} more" if left else ""
    return "".join([*lines, _command("notice", "summary", headline(comparison) + more)])


def _told(telling: Sequence[Verdict], comparison: Comparison) -> list[tuple[Verdict, str, int]]:
    """What annotations say: each of one row, or of as many rows of a provider as have no time for the same reason."""
    shown, common = quantity_of(comparison), shared(comparison)
    found = []
    for changed, rows in sections(telling):
        groups = [] if changed else grouped(rows, comparison, common)
        single = rows if changed else [group.first for group in groups if group.count == 1]
        found += [(row, f"{full_name(row, comparison)}: {sentence(row, shown)}", 1) for row in single]
        found += [
            (group.first, f"{plain(group.first.key.operator)} {group.told}", group.count)
            for group in groups
            if group.count > 1
        ]
    return sorted(found, key=lambda each: WORDS.index(each[0].word))


def step_summary(comparison: Comparison) -> str:
    """Markdown for the file that GITHUB_STEP_SUMMARY names."""
    return markdown.document(comparison, SUMMARY_LIMIT)


def outputs(comparison: Comparison) -> str:
    """Lines for the file that GITHUB_OUTPUT names: whether the gate passed, the gravest verdict, and all counts."""
    counts, passed = comparison.counts, comparison.gate.judge(comparison).passed
    found = {"passed": str(passed).lower(), "verdict": next(iter(counts), "none"), "summary": summary(comparison)}
    found |= {word: str(counts.get(word, 0)) for word in WORDS}
    return "".join(f"{name}={printable(value)}\n" for name, value in found.items())


def _level(row: Verdict, fail_on: Collection[str]) -> str:
    return "error" if row.word in fail_on else "warning" if row.word in WARNINGS else "notice"


def _place(row: Verdict, comparison: Comparison) -> str:
    """`file=kernels/mine.py,line=12,` where the contender's environment file says where the provider is defined: GitHub then
    shows the annotation in the diff. Else ""."""
    provider = row.key.provider or row.contender.partition("[")[0]
    file, _, line = comparison.places.get(row.contender, {}).get(provider, "").rpartition(":")
    known = file and not file.startswith("/") and ".." not in file.split("/") and line.isdecimal() and len(line) < 8
    return f"file={_property(printable(file, MESSAGE_LIMIT))},line={line}," if known else ""


def _command(level: str, title: str, message: str, place: str = "") -> str:
    return (
        f"::{level} {place}title={_property(f'kbench compare: {title}')}::{_data(printable(message, MESSAGE_LIMIT))}\n"
    )


def _data(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
