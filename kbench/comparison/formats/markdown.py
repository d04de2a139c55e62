"""A comparison as Markdown for a comment on a pull request: what changed first, the rest folded, never too long.

All that comes from files is escaped: a provider called `<script>`, `@everyone` or `a|b` is text like any other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from kbench.comparison import Comparison
from kbench.comparison.presentation import header, rows
from kbench.comparison.presentation.groups import grouped, sections
from kbench.comparison.presentation.header import WEIGHTS
from kbench.comparison.presentation.table import numbers
from kbench.comparison.presentation.words import GLYPHS, plain
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
    page = _Page(limit - RESERVE)
    page.fill([MARKER, f"### {_headline(comparison)}", "", f"**{escape(header.title(comparison))}**", ""])
    if comparison.nothing_common:
        return page.text
    common = rows.shared(comparison)
    facts = [f"{name}: {value}" for name, value in header.facts(comparison, rows.brief(common))]
    counts = [header.summary(comparison)] if comparison.gate.judge(comparison).text else []
    notes = [*counts, *facts, *header.drifts(comparison), *header.geomeans(comparison), *comparison.notes]
    lost_lines = len(notes) - page.fill((f"- {escape(note)}" for note in notes), closing=[""])
    found = _differences(comparison)
    lost_lines += len(found) - page.fill(found, ["| not the same | old | new | |", "|---|---|---|---|"], [""])
    lost_rows = 0
    for changed, members in sections(comparison.rows):
        fill = _fill_table if changed else _fill_groups
        lost_rows += len(members) - fill(page, members, comparison, common)
    page.fill((escape(note) for note in header.footnotes(comparison)), closing=[""])
    lost = [f"{count} {what}" for count, what in ((lost_rows, "rows"), (lost_lines, "lines above them")) if count]
    if lost:
        page.left += RESERVE
        page.fill([f"**No room for {' and '.join(lost)}**: `kbench compare ... --export json=FILE` has everything."])
    return page.text


def _headline(comparison: Comparison) -> str:
    """`kbench compare: gate failed: 12 failed (--fail-on failed)` with a mark; the counts where there is no gate."""
    result = comparison.gate.judge(comparison)
    mark = "" if not result.text else "\N{WHITE HEAVY CHECK MARK} " if result.passed else "\N{CROSS MARK} "
    return f"{mark}kbench compare: {escape(result.text or header.summary(comparison))}"


class _Page:
    """Lines, as long as there is room for them."""

    def __init__(self, limit: int) -> None:
        self.lines: list[str] = []
        self.left = limit

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip() + "\n"

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


def _fold(members: Sequence[Verdict]) -> tuple[list[str], list[str]]:
    """What opens and closes a section: one that wants attention has no fold."""
    word = members[0].word
    if word not in rows.QUIET:
        return [], []
    glance = " open" if word == "unclear" and len(members) <= AT_A_GLANCE else ""
    return [f"<details{glance}><summary>{len(members)} {word}</summary>", ""], ["</details>", ""]


def _fill_table(page: _Page, changed: Sequence[Verdict], comparison: Comparison, common: Collection[str]) -> int:
    """A table of rows that have a change. A reason that several have stands below it. Says how many rows there was room for."""
    told = numbers(changed, comparison)
    names = [rows.brief(rows.distinct(row, comparison, common)) for row in changed]
    places = rows.repeated(changed)
    own = any(row.reason and row.reason not in places for row in changed)
    heads = ["verdict", *names[0], *told[0], *(["reason"] if own else [])]
    rule = "|".join("---:" if name in told[0] else "---" for name in heads)
    lines = []
    for row, name, cells in zip(changed, names, told, strict=True):
        verdict = f"{GLYPHS[row.word]} {row.word}" + (f" ({places[row.reason]})" if row.reason in places else "")
        reason = [row.reason if row.reason not in places else ""] if own else []
        lines.append(_row(verdict, *name.values(), *cells.values(), *reason))
    below = [line for reason, place in places.items() for line in (f"({place}) {escape(reason)}", "")]
    opened, closed = _fold(changed)
    return page.fill(lines, [*opened, _row(*heads), f"|{rule}|"], ["", *below, *closed])


def _fill_groups(page: _Page, members: Sequence[Verdict], comparison: Comparison, common: Collection[str]) -> int:
    """A table of groups of rows that have none. Says how many rows there was room for."""
    groups = grouped(members, comparison, common)
    lines = [_row(f"{GLYPHS[group.word]} {group.word}", group.who, group.extent, group.why) for group in groups]
    opened, closed = _fold(members)
    heads = [_row("verdict", "provider", "cases", "reason"), "|---|---|---|---|"]
    kept = page.fill(lines, [*opened, *heads], ["", *closed])
    return sum(group.count for group in groups[:kept])


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def escape(text: str) -> str:
    """Text that cannot break out of a table's cell, be taken for markup, or call anybody."""
    text = plain(text)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _REFERENCE.sub("&#8203;", _MARKUP.sub(r"\\\1", text))
