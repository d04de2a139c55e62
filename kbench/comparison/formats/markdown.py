"""A comparison as Markdown for a comment on a pull request: what changed first, the rest folded, never too long.

All that comes from files is escaped: a provider called `<script>`, `@everyone` or `a|b` is text like any other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from kbench.comparison import Comparison
from kbench.comparison.formats import header, rows
from kbench.comparison.formats.header import WEIGHTS
from kbench.comparison.formats.table import numbers
from kbench.comparison.formats.words import GLYPHS, plain
from kbench.comparison.verdict import Verdict

MARKER = "<!-- kbench:compare -->"
"""The first line, by which a later run finds the comment that it is to replace."""

LIMIT = 60_000
"""Bytes of a document. GitHub takes 65,536 characters."""

RESERVE = 200
"""Bytes of it that are kept for saying what was left out."""

LONGEST = 300
"""Characters of a cell; what is longer is cut here and whole in the other formats."""

AT_A_GLANCE = 20
"""Unclear rows, up to which they are not folded."""

_MARKUP = re.compile(r"([\\`*_\[\]|~$])")
_REFERENCE = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=//)|(?<=www)(?=\.)")
"""Inside a mention, a reference or a bare link. A space of no width there makes it text."""


def text(comparison: Comparison) -> str:
    return document(comparison, LIMIT)


def document(comparison: Comparison, limit: int) -> str:
    """The report in at most `limit` bytes. What there was no room for is counted at its end."""
    common = rows.shared(comparison)
    page = _Page(limit - RESERVE)
    title = [f"**{escape(header.title(comparison))}**", ""]
    page.fill([MARKER, f"### kbench compare: {header.summary(comparison)}", "", *title])
    facts = [f"{name}: {value}" for name, value in header.facts(comparison, common)]
    notes = [*facts, *header.drifts(comparison), *header.geomeans(comparison), *comparison.notes]
    lost_lines = len(notes) - page.fill((f"- {escape(note)}" for note in notes), closing=[""])
    found = _differences(comparison)
    lost_lines += len(found) - page.fill(found, ["| not the same | old | new | |", "|---|---|---|---|"], [""])
    lost_rows = 0
    for section, members in groupby(rows.ordered(comparison), lambda row: row.word if row.word in rows.QUIET else ""):
        group = list(members)
        head, body = _table(group, comparison, common)
        fold = ["</details>", ""] if section else []
        lost_rows += len(group) - page.fill(body, [*_unfolded(section, group), *head], ["", *fold])
    lost = [f"{count} {what}" for count, what in ((lost_rows, "rows"), (lost_lines, "lines above them")) if count]
    if lost:
        page.left += RESERVE
        page.fill([f"**No room for {' and '.join(lost)}**: `kbench compare ... --export json=FILE` has everything."])
    return "\n".join(page.lines).rstrip() + "\n"


class _Page:
    """Lines, as long as there is room for them."""

    def __init__(self, limit: int) -> None:
        self.lines: list[str] = []
        self.left = limit

    def fill(self, body: Iterable[str], opening: Sequence[str] = (), closing: Sequence[str] = ()) -> int:
        """Add as many lines of the body as fit between its frame, and say how many. No line, no frame."""
        room = self.left - _size((*opening, *closing))
        fitting = []
        for line in body:
            room -= _size([line])
            if room < 0:
                break
            fitting.append(line)
        if fitting:
            added = [*opening, *fitting, *closing]
            self.lines += added
            self.left -= _size(added)
        return len(fitting)


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _differences(comparison: Comparison) -> list[str]:
    several = len(comparison.contenders) > 1
    return [
        _row(f"{found.contender}: {found.name}" if several else found.name, found.old, found.new, WEIGHTS[found.weight])
        for found in comparison.differences
    ]


def _unfolded(section: str, group: Sequence[Verdict]) -> list[str]:
    """What opens a section: the changed rows' has no fold."""
    if not section:
        return []
    glance = " open" if section == "unclear" and len(group) <= AT_A_GLANCE else ""
    return [f"<details{glance}><summary>{len(group)} {section}</summary>", ""]


def _table(
    group: Sequence[Verdict], comparison: Comparison, common: Collection[str]
) -> tuple[list[str], Iterator[str]]:
    """The two lines that head a table of rows, and a line for each."""
    told = numbers(group, comparison)
    reasons = any(row.reason for row in group)
    names = ["verdict", *rows.distinct(group[0], comparison, common), *told[0], *(["reason"] if reasons else [])]
    rule = "|".join("---:" if name in told[0] else "---" for name in names)
    lines = (
        _row(
            f"{GLYPHS[row.word]} {row.word}",
            *rows.distinct(row, comparison, common).values(),
            *cells.values(),
            *([row.reason] if reasons else []),
        )
        for row, cells in zip(group, told, strict=True)
    )
    return [_row(*names), f"|{rule}|"], lines


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def escape(text: str) -> str:
    """Text that cannot break out of a table's cell, be taken for markup, or call anybody."""
    text = plain(text)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _REFERENCE.sub("&#8203;", _MARKUP.sub(r"\\\1", text))
