"""The rows of a comparison as aligned columns of text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len

from kbench.comparison import Comparison
from kbench.comparison.formats import rows
from kbench.comparison.formats.layout import GAP, INDENT, Cells, Remarks, columns, line, paragraphs, total
from kbench.comparison.formats.words import GLYPHS, interval, percent, plain, probability, quantity, sentence, values
from kbench.comparison.verdict import Verdict

MARK = len(" (99)")
"""What a reference to a remark below the table takes of a line."""


def table(shown: Sequence[Verdict], comparison: Comparison, common: Collection[str], width: int) -> list[str]:
    """Who, old and new value, change, and the verdict with its reason, without the parts of names in `common`.

    Where names are too wide for the columns beside all numbers, the case stands once above its providers. A single name that
    is too long stands on a line of its own.
    """
    if not shown:
        return []
    names = [rows.distinct(row, comparison, common) for row in shown]
    cells = numbers(shown, comparison)
    verdicts = [f"{GLYPHS[row.word]} {row.word}" for row in shown]
    of_numbers = columns(cells, cells[0])
    widest = total(of_numbers) + max(map(len, verdicts))
    if len(INDENT) + widest + MARK > width:
        return _stacked(shown, names, comparison, width)
    of_names = _fitting(names, width - widest - MARK)
    indent = GAP if len(of_names) < len(names[0]) else ""
    blank = indent + " " * (total(of_names))
    remarks = Remarks([plain(row.reason) for row in shown], width - len(blank) - widest - len(": "), width)
    axes = {part for part in of_names if all(parts[part].isdigit() for parts in names)}
    heads = {name: name for name in (*of_names, *of_numbers)}
    lines = [indent + line(heads, of_names, axes) + line(heads, of_numbers, of_numbers) + "verdict"]
    heading = ""
    for row, parts, numbered, verdict in zip(shown, names, cells, verdicts, strict=True):
        fits = all(cell_len(parts[part]) <= size for part, size in of_names.items())
        above = rows.said({part: value for part, value in parts.items() if not fits or part not in of_names})
        if above and above != heading:
            lines += paragraphs([above], width)
        heading = above
        start = indent + line(parts, of_names, axes) if fits else blank
        lines += remarks.after(start + line(numbered, of_numbers, of_numbers) + verdict, plain(row.reason))
    return [*lines, *remarks.below()]


def numbers(shown: Sequence[Verdict], comparison: Comparison) -> list[Cells]:
    """The numbers of rows by column, without columns that would be empty."""
    metric = quantity(comparison.rules.metric)
    old, new = (f"old {metric.unit}", f"new {metric.unit}")
    if comparison.by == "provider":
        old, new = (f"base {metric.unit}", metric.unit)
    cells = []
    for row in shown:
        before, after = values(row, metric)
        cells.append(
            {
                old: before,
                new: after,
                metric.name: "" if row.ratio is None else percent(row.ratio),
                "95% interval": interval(row.ci) if row.ci else "",
                "q": "" if row.q is None else probability(row.q),
            }
        )
    filled = [name for name in cells[0] if any(line[name] for line in cells)]
    return [{name: line[name] for name in filled} for line in cells]


def _fitting(names: Sequence[Cells], room: int) -> dict[str, int]:
    """Columns for the names: for all their parts, else for who was measured, else none.

    Names that are too long by themselves have no say, as long as they are the fewer.
    """
    who = [part for part in names[0] if part in rows.WHO]
    for kept, left in ((list(names[0]), room), (who, room - len(GAP))):
        short = [parts for parts in names if sum(cell_len(parts[part]) + len(GAP) for part in kept) <= left]
        found = columns(short, kept) if 2 * len(short) >= len(names) else {}
        if found and total(found) <= left:
            return found
    return {}


def _stacked(shown: Sequence[Verdict], names: Sequence[Cells], comparison: Comparison, width: int) -> list[str]:
    """No room for columns: a paragraph on each row."""
    metric = quantity(comparison.rules.metric)
    lines = []
    for row, parts in zip(shown, names, strict=True):
        lines += paragraphs([rows.said(parts)], width)
        lines += paragraphs([f"{GLYPHS[row.word]} {sentence(row, metric)}"], width, INDENT)
    return lines
