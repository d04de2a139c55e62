"""A comparison as plain text for a terminal or a log. Nothing is cropped at any width."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence

from kbench.comparison import report
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.verdict import Verdict
from kbench.text.table import GAP, Table
from kbench.text.words import plural

INDENT = " " * GAP

_COLOURS = {"!": "31", "+": "32", "?": "33", "x": "33"}
"""ANSI codes by glyph: red, green, yellow. `same` and `untimed` have no colour."""


def text(
    comparison: Comparison,
    width: int = 80,
    sort: str = "verdict",
    only: Collection[str] = (),
    *,
    colour: bool = False,
    unclear_advice: str = "",
) -> str:
    """The report: the result of the gate first, the counts and the next steps last. `only` lists the verdicts to show; empty
    means all. `unclear_advice` is that of `next_steps`.

    Raises UsageError for an unknown order.
    """
    if comparison.nothing_common:
        return "\n".join(_paragraphs([report.headline(comparison)], width)) + "\n"
    shown = [row for row in report.ordered(comparison, sort) if not only or row.verdict in only]
    hidden = len(comparison.rows) - len(shown)
    common = report.common_parts(comparison)
    parts = report.sections(shown) if sort == "verdict" else [(True, shown)] if shown else []
    blocks = [
        _gate(comparison, width, colour),
        _head(comparison, report.with_short_dtype(common), width),
        _differences(comparison, width),
        _paragraphs([*report.drifts(comparison), *(f"note: {note}" for note in comparison.notes)], width),
        *((_rows if changed else _groups)(rows, comparison, common, width, colour) for changed, rows in parts),
        _paragraphs([report.geomean(comparison)], width),
        [
            report.summary(comparison) + (f" ({plural(hidden, 'row')} not shown)" if hidden else ""),
            *_paragraphs(report.next_steps(comparison, unclear_advice), width),
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def paint(verdict: Verdict, text: str, colour: bool) -> str:
    """The text in the colour of a verdict, if the terminal has colours."""
    code = _COLOURS.get(verdict.glyph) if colour else None
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _paragraphs(texts: Iterable[str], width: int, others: str = INDENT) -> list[str]:
    """The lines of wrapped paragraphs, and what precedes all lines of each but its first. Words are never split, so that paths
    and names can be found and copied."""
    wrapper = textwrap.TextWrapper(
        max(width, len(others) + 1), subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
    return [line for text in texts for line in wrapper.wrap(text)]


def _gate(comparison: Comparison, width: int, colour: bool) -> list[str]:
    """The result of the gate; nothing if there is no gate and the comparison passed."""
    gate = comparison.gate
    unclear = Verdict.UNCLEAR in comparison.counts
    like = Verdict.SLOWER if not gate.passed else Verdict.UNCLEAR if unclear else Verdict.FASTER
    lines = _paragraphs([f"{like.glyph} {gate.text}"], width) if gate.text else []
    return [paint(like, line, colour) for line in lines]


def _head(comparison: Comparison, common: dict[str, str], width: int) -> list[str]:
    facts = report.facts(comparison, common)
    size = max(len(name) for name, _ in facts) + GAP
    named = (f"{name:{size}}{value}" for name, value in facts)
    return _paragraphs([report.title(comparison)], width) + _paragraphs(named, width, " " * size)


def _differences(comparison: Comparison, width: int) -> list[str]:
    """What differs between the files: in columns, or a line each where columns are too wide."""
    rows = [
        (difference.name, difference.old, difference.new, report.WEIGHTS[difference.weight])
        for difference in comparison.differences
    ]
    table = Table(("not the same", comparison.old, comparison.new, ""), rows)
    if table.width <= width:
        return table.lines() if rows else []
    return _paragraphs((f"{name}: {old} -> {new} ({weight})" for name, old, new, weight in rows), width)


def _groups(
    rows: Sequence[JudgedRow], comparison: Comparison, common: Collection[str], width: int, colour: bool
) -> list[str]:
    """A paragraph for each group of rows."""
    lines = []
    for group in report.grouped(rows, comparison, common):
        verdict = report.mark(group.first)
        first, *others = _paragraphs([f"{verdict}  {group.text}"], width, 2 * INDENT)
        lines += [paint(group.first.verdict, verdict, colour) + first.removeprefix(verdict), *others]
    return lines


def _rows(
    rows: Sequence[JudgedRow], comparison: Comparison, common: Collection[str], width: int, colour: bool
) -> list[str]:
    """A line for each row. Where that is too wide, reasons become footnotes, q is left out, and then one more of the first
    parts of the names stands on a line above the rows that share it."""
    table = report.row_table(rows, comparison, common)
    footnotes: dict[str, str] = {}
    if table.width > width and report.REASON in table.header:
        reasons = dict.fromkeys(row.reason for row in rows if row.reason)
        footnotes = {reason: f" ({number})" for number, reason in enumerate(reasons, start=1)}
        marked = [[*cells[:-2], cells[-2] + footnotes.get(cells[-1], "")] for cells in table.rows]
        table = Table(table.header[:-1], marked, table.right)
    table = table.without([report.Q], width)
    names = [report.with_short_dtype(report.name_parts(row, common)) for row in rows]
    above: list[str] = []
    for name in names[0]:
        if table.width + len(INDENT) * bool(above) <= width:
            break
        above.append(name)
        table = Table(table.header[1:], [cells[1:] for cells in table.rows], table.right)
    indent = INDENT if above else ""
    head, *body = table.lines()
    lines, heading = [indent + head], ""
    for row, parts, line in zip(rows, names, body, strict=True):
        earlier, heading = heading, report.format_parts({name: parts[name] for name in above})
        if heading != earlier:
            lines += _paragraphs([heading], width)
        verdict = report.mark(row)
        lines.append(indent + line.replace(verdict, paint(row.verdict, verdict, colour), 1))
    return [*lines, *_paragraphs((f"{number.strip()} {reason}" for reason, number in footnotes.items()), width)]
