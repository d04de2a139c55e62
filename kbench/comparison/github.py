"""A comparison on GitHub: Markdown for a comment on a pull request and for the summary of a step, and for a job of GitHub
Actions annotations in the log and outputs for later steps.

In Markdown, changes come first, the rest is folded, and text from files is escaped: a provider called `<script>`, `@everyone`
or `a|b` is shown as it is. The syntax of annotations is that of
https://docs.github.com/actions/reference/workflow-commands-for-github-actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

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

LONGEST_CELL = 300
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


# ---- Markdown


def markdown(comparison: Comparison, limit: int = MAX_DOCUMENT_BYTES) -> str:
    """The report in at most `limit` bytes. Its last line counts what was left out."""
    lines = [MARKER, f"### {_headline(comparison)}", "", f"**{escape(report.title(comparison))}**", ""]
    room, left_out = limit - RESERVE - _size(lines), 0
    for opening, body, closing in _parts(comparison):
        room -= _size([*opening, *closing])
        fitting = 0
        while fitting < len(body) and _size([body[fitting]]) <= room:
            room -= _size([body[fitting]])
            fitting += 1
        lines += [*opening, *body[:fitting], *closing] if fitting else []
        if fitting < len(body):  # nothing below is more important
            room, left_out = 0, left_out + len(body) - fitting
    if left_out:
        lines.append(f"**No room for {left_out} more lines**: `kbench compare ... --export json=FILE` has everything.")
    return "\n".join(lines).rstrip() + "\n"


def _parts(comparison: Comparison) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """The parts of the document below its title, the most important first. Each has the lines that open it, the lines of its
    body, of which some may have no room, and the lines that close it."""
    notes = [*([report.summary(comparison)] if comparison.gate.text else []), *report.notes(comparison)]
    yield [], [f"- {escape(note)}" for note in notes], [""]
    yield *_table(report.difference_table(comparison)), [""]
    for changed, rows in report.sections(comparison.rows):
        head, body = _table((report.row_table if changed else report.group_table)(rows, comparison))
        opening, closing = _fold(rows)
        yield [*opening, *head], body, ["", *closing]


def _table(table: Table) -> tuple[list[str], list[str]]:
    """The head and the lines of a table."""
    marks = "|".join("---:" if head in table.right else "---" for head in table.header)
    return [_line(table.header), f"|{marks}|"], [_line(cells) for cells in table.rows]


def _headline(comparison: Comparison) -> str:
    """`kbench compare: gate failed: 12 failed (--fail-on failed)` with a mark; the counts where there is no gate."""
    gate = comparison.gate
    unclear = Verdict.UNCLEAR in comparison.counts
    passed = "\N{WARNING SIGN}" if unclear else "\N{WHITE HEAVY CHECK MARK}"
    sign = "" if not gate.text else f"{passed} " if gate.passed else "\N{CROSS MARK} "
    return f"{sign}kbench compare: {escape(gate.text or report.summary(comparison))}"


def _fold(rows: Sequence[JudgedRow]) -> tuple[list[str], list[str]]:
    """The opening and closing lines of a section. A section that needs attention is not folded."""
    verdict = rows[0].verdict
    if not verdict.quiet:
        return [], []
    glance = " open" if verdict is Verdict.UNCLEAR and len(rows) <= AT_A_GLANCE else ""
    return [f"<details{glance}><summary>{len(rows)} {verdict}</summary>", ""], ["</details>", ""]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def escape(text: str) -> str:
    """Text that cannot leave its table cell, act as markup, or mention anybody."""
    text = printable(text)
    text = text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}..."
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _REFERENCE.sub("&#8203;", _MARKUP.sub(r"\\\1", text))


# ---- GitHub Actions


def commands(comparison: Comparison) -> str:
    """Workflow commands: an error for each verdict that fails the gate, a warning for others that need attention, a notice
    for other changes, and the summary."""
    failing = comparison.options.failing
    messages = _messages(comparison)
    messages.sort(key=lambda message: (message[0].verdict not in failing, message[0].verdict.rank))
    lines = []
    for row, message, _ in messages[:MOST_ANNOTATIONS]:
        notable = "warning" if row.verdict.needs_attention else "notice"
        level = "error" if row.verdict in failing else notable
        lines.append(_command(level, row.verdict, message, _place(row, comparison)))
    left = sum(count for _, _, count in messages[MOST_ANNOTATIONS:])
    more = f"; {left} more row{'s have' if left > 1 else ' has'} no annotation" if left else ""
    return "".join([*lines, _command("notice", "summary", report.headline(comparison) + more)])


def _messages(comparison: Comparison) -> list[tuple[JudgedRow, str, int]]:
    """The messages of annotations, each with its first row and the number of its rows. Rows of a provider without a time share
    a message if they have the same reason."""
    failing = comparison.options.failing
    rows = [row for row in report.ordered(comparison) if row.verdict in failing or not row.verdict.quiet]
    messages = []
    for changed, members in report.sections(rows):
        if changed:
            messages += [(row, f"{row.key.label}: {report.sentence(row, comparison)}", 1) for row in members]
        else:
            groups = report.grouped(members, comparison)
            messages += [(group.first, f"{group.first.key.operator} {group.text}", group.count) for group in groups]
    return messages


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
