"""A comparison as Markdown for a comment on a pull request: changes first, the rest folded, within GitHub's limit.

Text from files is escaped: a provider called `<script>`, `@everyone` or `a|b` is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation import report_lines, row_names
from kbench.comparison.presentation.groups import grouped, sections
from kbench.comparison.presentation.report_lines import WEIGHTS
from kbench.comparison.presentation.text_table import number_cells
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


def text(comparison: Comparison) -> str:
    return document(comparison, MAX_DOCUMENT_BYTES)


def document(comparison: Comparison, limit: int) -> str:
    """The report in at most `limit` bytes. Its last line counts what was left out."""
    page = _Page(limit - RESERVE)
    page.fill([MARKER, f"### {_headline(comparison)}", "", f"**{escape(report_lines.title(comparison))}**", ""])
    if comparison.nothing_common:
        return page.text
    common = row_names.common_parts(comparison)
    facts = [f"{name}: {value}" for name, value in report_lines.facts(comparison, row_names.with_short_dtype(common))]
    counts = [report_lines.summary(comparison)] if comparison.gate.judge(comparison).text else []
    notes = [*counts, *facts, *report_lines.drifts(comparison), *report_lines.geomeans(comparison), *comparison.notes]
    lost_lines = len(notes) - page.fill((f"- {escape(note)}" for note in notes), closing=[""])
    found = _differences(comparison)
    lost_lines += len(found) - page.fill(found, ["| not the same | old | new | |", "|---|---|---|---|"], [""])
    lost_rows = 0
    for changed, members in sections(comparison.rows):
        fill = _fill_table if changed else _fill_groups
        lost_rows += len(members) - fill(page, members, comparison, common)
    lost = [f"{count} {what}" for count, what in ((lost_rows, "rows"), (lost_lines, "lines above the tables")) if count]
    if lost:
        page.left += RESERVE
        page.fill([f"**No room for {' and '.join(lost)}**: `kbench compare ... --export json=FILE` has everything."])
    return page.text


def _headline(comparison: Comparison) -> str:
    """`kbench compare: gate failed: 12 failed (--fail-on failed)` with a mark; the counts where there is no gate."""
    result = comparison.gate.judge(comparison)
    unclear = Verdict.UNCLEAR in comparison.counts
    passed = "\N{WARNING SIGN}" if unclear else "\N{WHITE HEAVY CHECK MARK}"
    mark = "" if not result.text else f"{passed} " if result.passed else "\N{CROSS MARK} "
    return f"{mark}kbench compare: {escape(result.text or report_lines.summary(comparison))}"


class _Page:
    """A page with a limited number of bytes."""

    def __init__(self, limit: int) -> None:
        self.lines: list[str] = []
        self.left = limit

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip() + "\n"

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


def _size(lines: Iterable[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _differences(comparison: Comparison) -> list[str]:
    several = len(comparison.contenders) > 1
    return [
        _row(f"{found.contender}: {found.name}" if several else found.name, found.old, found.new, WEIGHTS[found.weight])
        for found in comparison.differences
    ]


def _fold(members: Sequence[JudgedRow]) -> tuple[list[str], list[str]]:
    """The opening and closing lines of a section. A section that needs attention is not folded."""
    verdict = members[0].verdict
    if not verdict.quiet:
        return [], []
    glance = " open" if verdict is Verdict.UNCLEAR and len(members) <= AT_A_GLANCE else ""
    return [f"<details{glance}><summary>{len(members)} {verdict}</summary>", ""], ["</details>", ""]


def _fill_table(page: _Page, changed: Sequence[JudgedRow], comparison: Comparison, common: Collection[str]) -> int:
    """Add a table of rows that have a change, and return how many rows fitted. Reasons that rows share stand below it."""
    told = number_cells(changed, comparison)
    names = [row_names.with_short_dtype(row_names.distinguishing_parts(row, comparison, common)) for row in changed]
    places = row_names.shared_reasons(changed)
    own = any(row.reason and row.reason not in places for row in changed)
    heads = ["verdict", *names[0], *told[0], *(["reason"] if own else [])]
    rule = "|".join("---:" if name in told[0] else "---" for name in heads)
    lines = []
    for row, name, cells in zip(changed, names, told, strict=True):
        verdict = f"{row.verdict.glyph} {row.verdict}" + (f" ({places[row.reason]})" if row.reason in places else "")
        reason = [row.reason if row.reason not in places else ""] if own else []
        lines.append(_row(verdict, *name.values(), *cells.values(), *reason))
    below = [line for reason, place in places.items() for line in (f"({place}) {escape(reason)}", "")]
    opened, closed = _fold(changed)
    return page.fill(lines, [*opened, _row(*heads), f"|{rule}|"], ["", *below, *closed])


def _fill_groups(page: _Page, members: Sequence[JudgedRow], comparison: Comparison, common: Collection[str]) -> int:
    """Add a table of groups of rows without a change, and return how many rows fitted."""
    groups = grouped(members, comparison, common)
    lines = [_row(f"{group.verdict.glyph} {group.verdict}", group.who, group.extent, group.why) for group in groups]
    opened, closed = _fold(members)
    heads = [_row("verdict", "provider", "cases", "reason"), "|---|---|---|---|"]
    kept = page.fill(lines, [*opened, *heads], ["", *closed])
    return sum(group.count for group in groups[:kept])


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(escape, cells))} |"


def escape(text: str) -> str:
    """Text that cannot leave its table cell, act as markup, or mention anybody."""
    text = printable(text)
    text = text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}..."
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _REFERENCE.sub("&#8203;", _MARKUP.sub(r"\\\1", text))
