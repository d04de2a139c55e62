"""A comparison as Markdown for a comment on a pull request: changes first, the rest folded, within GitHub's limit.

Text from files is escaped: a provider called `<script>`, `@everyone` or `a|b` is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from kbench.comparison import report
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.verdict import Verdict
from kbench.text.printable import printable

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


class _Page:
    """A page with a limited number of bytes."""

    def __init__(self, limit: int) -> None:
        self.lines: list[str] = []
        self.left = limit

    def fill(self, body: Iterable[str], opening: Sequence[str] = (), closing: Sequence[str] = ()) -> int:
        """Add as many lines of the body as fit between `opening` and `closing`, and return their number. If no line fits, add
        nothing."""
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


def document(comparison: Comparison, limit: int = MAX_DOCUMENT_BYTES) -> str:
    """The report in at most `limit` bytes. Its last line counts what was left out."""
    page = _Page(limit - RESERVE)
    page.fill([MARKER, f"### {_headline(comparison)}", "", f"**{escape(report.title(comparison))}**", ""])
    if not comparison.nothing_common:
        lost = _fill(page, comparison)
        if words := " and ".join(f"{count} {what}" for what, count in lost.items() if count):
            page.left += RESERVE
            page.fill([f"**No room for {words}**: `kbench compare ... --export json=FILE` has everything."])
    return "\n".join(page.lines).rstrip() + "\n"


def _fill(page: _Page, comparison: Comparison) -> dict[str, int]:
    """Fill the page below its title. Returns how many rows and lines found no room."""
    common = report.common_parts(comparison)
    notes = [
        *([report.summary(comparison)] if comparison.gate.text else []),
        *(f"{name}: {value}" for name, value in report.facts(comparison, report.with_short_dtype(common))),
        *report.drifts(comparison),
        report.geomean(comparison),
        *comparison.notes,
    ]
    differences = [_row(each.name, each.old, each.new, report.WEIGHTS[each.weight]) for each in comparison.differences]
    lines = page.fill((f"- {escape(note)}" for note in notes), closing=[""])
    lines += page.fill(differences, ["| not the same | old | new | |", "|---|---|---|---|"], [""])
    rows = sum(
        (_fill_table if changed else _fill_groups)(page, members, comparison, common)
        for changed, members in report.sections(comparison.rows)
    )
    return {"rows": len(comparison.rows) - rows, "lines above the tables": len(notes) + len(differences) - lines}


def _headline(comparison: Comparison) -> str:
    """`kbench compare: gate failed: 12 failed (--fail-on failed)` with a mark; the counts where there is no gate."""
    gate = comparison.gate
    unclear = Verdict.UNCLEAR in comparison.counts
    passed = "\N{WARNING SIGN}" if unclear else "\N{WHITE HEAVY CHECK MARK}"
    mark = "" if not gate.text else f"{passed} " if gate.passed else "\N{CROSS MARK} "
    return f"{mark}kbench compare: {escape(gate.text or report.summary(comparison))}"


def _fill_table(page: _Page, rows: Sequence[JudgedRow], comparison: Comparison, common: Collection[str]) -> int:
    """Add a table of rows that have a change, and return how many rows fitted. Reasons that rows share stand below it."""
    numbers = report.number_cells(rows, comparison)
    names = [report.with_short_dtype(report.name_parts(row, common)) for row in rows]
    footnotes = report.footnotes(rows)
    unshared = any(row.reason and row.reason not in footnotes for row in rows)
    heads = ["verdict", *names[0], *numbers[0], *(["reason"] if unshared else [])]
    rule = "|".join("---:" if name in numbers[0] else "---" for name in heads)
    lines = []
    for row, name, cells in zip(rows, names, numbers, strict=True):
        shared = row.reason in footnotes
        verdict = f"{row.verdict.glyph} {row.verdict}" + (f" ({footnotes[row.reason]})" if shared else "")
        reason = ["" if shared else row.reason] if unshared else []
        lines.append(_row(verdict, *name.values(), *cells.values(), *reason))
    below = [line for reason, number in footnotes.items() for line in (f"({number}) {escape(reason)}", "")]
    opened, closed = _fold(rows)
    return page.fill(lines, [*opened, _row(*heads), f"|{rule}|"], ["", *below, *closed])


def _fill_groups(page: _Page, rows: Sequence[JudgedRow], comparison: Comparison, common: Collection[str]) -> int:
    """Add a table of groups of rows without a change, and return how many rows fitted."""
    groups = report.grouped(rows, comparison, common)
    lines = [
        _row(f"{group.first.verdict.glyph} {group.first.verdict}", group.who, group.extent, group.why)
        for group in groups
    ]
    opened, closed = _fold(rows)
    heads = [_row("verdict", "provider", "cases", "reason"), "|---|---|---|---|"]
    kept = page.fill(lines, [*opened, *heads], ["", *closed])
    return sum(group.count for group in groups[:kept])


def _fold(rows: Sequence[JudgedRow]) -> tuple[list[str], list[str]]:
    """The opening and closing lines of a section. A section that needs attention is not folded."""
    verdict = rows[0].verdict
    if not verdict.quiet:
        return [], []
    glance = " open" if verdict is Verdict.UNCLEAR and len(rows) <= AT_A_GLANCE else ""
    return [f"<details{glance}><summary>{len(rows)} {verdict}</summary>", ""], ["</details>", ""]


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def escape(text: str) -> str:
    """Text that cannot leave its table cell, act as markup, or mention anybody."""
    text = printable(text)
    text = text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}..."
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _REFERENCE.sub("&#8203;", _MARKUP.sub(r"\\\1", text))
