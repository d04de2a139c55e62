"""A comparison as Markdown for a comment on a pull request: changes first, the rest folded, within GitHub's limit.

Text from files is escaped: a provider called `<script>`, `@everyone` or `a|b` is shown as it is.
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

_MARKUP = re.compile(r"([\\`*_\[\]|~$])")
_REFERENCE = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)")
"""A place inside a mention, a reference or a bare link. A zero-width space there makes it plain text."""


def document(comparison: Comparison, limit: int = MAX_DOCUMENT_BYTES) -> str:
    """The report in at most `limit` bytes. Its last line counts what was left out."""
    lines = [MARKER, f"### {_headline(comparison)}", "", f"**{escape(report.title(comparison))}**", ""]
    if comparison.nothing_common:
        return "\n".join(lines).rstrip() + "\n"
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
    common = report.common_parts(comparison)
    notes = [
        *([report.summary(comparison)] if comparison.gate.text else []),
        *(f"{name}: {value}" for name, value in report.facts(comparison, report.with_short_dtype(common))),
        *report.drifts(comparison),
        report.geomean(comparison),
        *comparison.notes,
    ]
    yield [], [f"- {escape(note)}" for note in notes], [""]
    different = [(row.name, row.old, row.new, report.WEIGHTS[row.weight]) for row in comparison.differences]
    yield _head(Table(("not the same", "old", "new", ""), different)), [_line(cells) for cells in different], [""]
    for changed, rows in report.sections(comparison.rows):
        table = report.row_table(rows, comparison, common)
        if not changed:
            groups = report.grouped(rows, comparison, common)
            cells = [(report.mark(group.first), group.who, group.extent, group.why) for group in groups]
            table = Table(("verdict", "provider", "cases", "reason"), cells)
        opening, closing = _fold(rows)
        yield [*opening, *_head(table)], [_line(cells) for cells in table.rows], ["", *closing]


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


def _head(table: Table) -> list[str]:
    return [_line(table.header), f"|{'|'.join('---:' if head in table.right else '---' for head in table.header)}|"]


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
