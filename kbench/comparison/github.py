"""A comparison on GitHub: Markdown for a comment on a pull request and for the summary of a step, and for a job of GitHub
Actions annotations in the log and outputs for later steps.

In Markdown, changes come first, the rest is folded, and text from files is escaped: a provider called `<script>`, `@everyone`
or `a|b` is shown as it is. The syntax of annotations is that of
https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from kbench.comparison import report
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.verdict import Verdict
from kbench.text.printable import printable
from kbench.text.table import Table

MARKER = "<!-- kbench:compare -->"
"""The first line. A later run uses it to find the comment that it replaces."""

MAX_DOCUMENT_BYTES = 60_000
"""The most bytes of a document. GitHub accepts 65,536 characters."""

RESERVE = 200
"""Bytes that are reserved for the line that says what was left out."""

LONGEST_CELL = 400
"""The most characters of a cell. Longer text is cut here; the other formats have all of it."""

AT_A_GLANCE = 20
"""Up to this many unclear rows are shown unfolded."""

MOST_ANNOTATIONS = 9
"""At most this many annotations of rows. GitHub shows ten of a kind per step and drops the rest silently; the tenth is the
summary."""

SUMMARY_LIMIT = 900_000
"""The most bytes of a step's summary. GitHub refuses more than 1 MiB."""

_MARKUP = re.compile(r"([\\`*_\[\]|~$])")
_REFERENCE = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)")
"""A place inside a mention, a reference or a bare link. A zero-width space there makes it plain text."""


def markdown(comparison: Comparison, limit: int = MAX_DOCUMENT_BYTES) -> str:
    """The report in at most `limit` bytes. Its last line counts what was left out."""
    text = "\n".join(_lines(comparison)).rstrip() + "\n"
    if len(text.encode()) <= limit:
        return text
    shown = text.encode()[: limit - RESERVE].decode(errors="ignore").rpartition("\n")[0]
    left_out = text.count("\n") - shown.count("\n")
    if shown.count("<details") > shown.count("</details"):
        shown += "\n\n</details>"
    return (
        f"{shown}\n\n**No room for {left_out} more lines**: `kbench compare ... --export json=FILE` has everything.\n"
    )


def _lines(comparison: Comparison) -> Iterator[str]:
    """The lines of the document, the most important first."""
    yield from (MARKER, f"### {_headline(comparison)}", "", f"**{escape(report.title(comparison))}**", "")
    notes = [*([report.summary(comparison)] if comparison.gate.text else []), *report.notes(comparison)]
    yield from (f"- {escape(note)}" for note in notes)
    if comparison.differences:
        yield from ("", *_table(report.difference_table(comparison)))
    for changed, rows in report.sections(comparison.rows):
        if changed:
            shown = _table(report.row_table(rows, comparison))
        else:
            shown = [f"- {group.first.verdict}: {escape(group.text)}" for group in report.grouped(rows, comparison)]
        verdict = rows[0].verdict
        if not verdict.quiet:
            yield from ("", *shown)
            continue
        glance = " open" if verdict is Verdict.UNCLEAR and len(rows) <= AT_A_GLANCE else ""
        yield from ("", f"<details{glance}><summary>{len(rows)} {verdict}</summary>", "", *shown, "", "</details>")


def _table(table: Table) -> list[str]:
    marks = "|".join("---:" if numeric else "---" for numeric in table.numeric)
    return [_line(table.header), f"|{marks}|", *map(_line, table.rows)]


def _headline(comparison: Comparison) -> str:
    """`kbench compare: gate failed: 12 failed (--fail-on failed)` with a mark; the counts where there is no gate."""
    gate = comparison.gate
    if not gate.text:
        return f"kbench compare: {escape(report.summary(comparison))}"
    sign = "\N{WARNING SIGN}" if Verdict.UNCLEAR in comparison.counts else "\N{WHITE HEAVY CHECK MARK}"
    if not gate.passed:
        sign = "\N{CROSS MARK}"
    return f"{sign} kbench compare: {escape(gate.text)}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def escape(text: str) -> str:
    """Text that cannot leave its table cell, act as markup, or mention anybody."""
    text = printable(text)
    text = text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}..."
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _REFERENCE.sub("&#8203;", _MARKUP.sub(r"\\\1", text))


def commands(comparison: Comparison) -> str:
    """Workflow commands: an error for each verdict that fails the gate, a warning for others that need attention, a notice
    for other changes, and the summary: an error where the gate does not pass."""
    failing = comparison.options.fail_on
    messages = sorted(_messages(comparison), key=lambda message: message.first.verdict not in failing)
    lines = []
    for row, _, text in messages[:MOST_ANNOTATIONS]:
        notable = "warning" if row.verdict.needs_attention else "notice"
        level = "error" if row.verdict in failing else notable
        lines.append(_command(level, row.verdict, text, _place(row, comparison)))
    left = sum(message.size for message in messages[MOST_ANNOTATIONS:])
    more = f"; {left} more row{'s have' if left > 1 else ' has'} no annotation" if left else ""
    outcome = "notice" if comparison.passed else "error"
    return "".join([*lines, _command(outcome, "summary", report.headline(comparison) + more)])


def _messages(comparison: Comparison) -> Iterator[report.Group]:
    """The messages of annotations in the order of their verdicts: one for each row with a change, and one for each group of
    rows without."""
    failing = comparison.options.fail_on
    for changed, rows in report.sections(
        row for row in comparison.rows if row.verdict in failing or not row.verdict.quiet
    ):
        for row in rows if changed else ():
            yield report.Group(row, 1, f"{row.key.label}: {report.sentence(row, comparison)}")
        for group in report.grouped(rows, comparison) if not changed else ():
            yield group._replace(text=f"{group.first.key.case.operator} {group.text}")


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
    GitHub then shows the annotation in the diff. It wants the path from the top of the repository."""
    file, _, line = comparison.places.get(row.key.provider, "").rpartition(":")
    path = os.path.relpath(file, os.environ.get("GITHUB_WORKSPACE") or ".") if file else ""
    inside = path and not path.startswith("../")
    return f"file={_property(path)},line={_property(line)}," if inside else ""


def _command(level: str, title: str, message: str, place: str = "") -> str:
    return f"::{level} {place}title={_property(f'kbench compare: {title}')}::{_data(message)}\n"


def _data(message: str) -> str:
    return message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
