"""A table of rows as aligned columns of text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from rich.cells import cell_len

from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation import row_names
from kbench.comparison.presentation.report_lines import quantity_of
from kbench.comparison.presentation.text_layout import (
    COLUMN_GAP,
    INDENT,
    Cells,
    Remarks,
    column_widths,
    line,
    paragraphs,
    total,
)
from kbench.comparison.presentation.wording import (
    Paint,
    format_change,
    interval,
    plus_minus,
    probability,
    sentence,
    unpainted,
    values,
)

INTERVAL, SPARE, NARROW = "95% interval", "q", "\N{PLUS-MINUS SIGN}95%"
"""If the columns do not fit on a line, SPARE is dropped first; then NARROW replaces INTERVAL. Other formats have both."""


def table(
    shown: Sequence[JudgedRow], comparison: Comparison, common: Collection[str], width: int, paint: Paint = unpainted
) -> list[str]:
    """The lines of a table: name, old and new value, change, and verdict with its reason. Names omit the parts in `common`.

    Each row is one line. If names are too wide for that, their first parts stand on a line above the rows that share them,
    and a single long name stands on its own line.
    """
    if not shown:
        return []
    names = [row_names.with_short_dtype(row_names.distinguishing_parts(row, comparison, common)) for row in shown]
    wide = number_cells(shown, comparison)
    cells = [line | {NARROW: plus_minus(row.ratio, row.ci)} for line, row in zip(wide, shown, strict=True)]
    verdicts = [f"{row.verdict.glyph} {row.verdict}" for row in shown]
    reasons = [row.reason for row in shown]
    mark = len(f" ({len(set(reasons))})") if any(reasons) else 0
    fitting = _fitting(names, cells, width - max(map(len, verdicts)) - mark)
    if fitting is None:
        return _stacked(shown, names, comparison, width)
    of_names, of_numbers = fitting
    indent = COLUMN_GAP if len(of_names) < len(names[0]) else ""
    start = len(indent) + total(of_names) + total(of_numbers) + max(map(len, verdicts))
    remarks = Remarks(reasons, width - start)
    axes = {part for part in of_names if all(parts[part].isdigit() for parts in names)}
    heads = {name: name for name in (*of_names, *of_numbers)}
    lines = [indent + line(heads, of_names, axes) + line(heads, of_numbers, of_numbers) + "verdict"]
    heading = ""
    for row, parts, numbered, verdict, reason in zip(shown, names, cells, verdicts, reasons, strict=True):
        fits = all(cell_len(parts[part]) <= size for part, size in of_names.items())
        above = row_names.format_parts(
            {part: value for part, value in parts.items() if not fits or part not in of_names}
        )
        if above and above != heading:
            lines += paragraphs([above], width)
        heading = above
        name = line(parts, of_names, axes) if fits else " " * total(of_names)
        told = paint(row.verdict, verdict) + remarks.of(reason)
        lines.append(indent + name + line(numbered, of_numbers, of_numbers) + told)
    return [*lines, *paragraphs(remarks.below(), width)]


def number_cells(shown: Sequence[JudgedRow], comparison: Comparison) -> list[Cells]:
    """The numbers of rows by column, without empty columns."""
    metric = quantity_of(comparison)
    old, new = (f"old {metric.unit}", f"new {metric.unit}")
    cells = []
    for row in shown:
        before, after = values(row, metric)
        cells.append(
            {
                old: before,
                new: after,
                metric.head: "" if row.ratio is None else format_change(row.ratio),
                INTERVAL: interval(row.ci) if row.ci else "",
                SPARE: "" if row.q is None else probability(row.q),
            }
        )
    filled = [name for name in cells[0] if any(line[name] for line in cells)]
    return [{name: line[name] for name in filled} for line in cells]


def _fitting(names: Sequence[Cells], cells: Sequence[Cells], room: int) -> tuple[dict[str, int], dict[str, int]] | None:
    """The widths of the columns of names and of numbers that fit, in the order of preference of `_choices`. None if not even
    the numbers fit.

    If no choice fits all names, the columns fit at least half of them; the other names get a line of their own.
    """
    choices = list(_choices(list(names[0]), column_widths(cells, cells[0])))
    for most_suffice in (False, True):
        for of_numbers, kept in choices if most_suffice else choices[:-1]:
            left = room - total(of_numbers) - (len(COLUMN_GAP) if len(kept) < len(names[0]) else 0)
            short = [parts for parts in names if sum(cell_len(parts[part]) + len(COLUMN_GAP) for part in kept) <= left]
            enough = 2 * len(short) >= len(names) if most_suffice else len(short) == len(names)
            if enough and total(found := column_widths(short, kept)) <= left:
                return found, of_numbers
    return None


def _choices(parts: list[str], of_numbers: dict[str, int]) -> Iterator[tuple[dict[str, int], list[str]]]:
    """Columns of numbers and the parts of names beside them, the best choice first. The other parts stand above the rows
    that share them. The last choice has no part beside the numbers."""
    full = {name: size for name, size in of_numbers.items() if name != NARROW}
    fewer = {name: size for name, size in full.items() if name != SPARE}
    narrow = {name: size for name, size in of_numbers.items() if name not in (SPARE, INTERVAL)}
    yield full, parts
    yield fewer, parts
    if parts and parts[0] in (
        "operator",
        "dtype",
    ):  # many rows share them, while each row may have its own value of an axis
        yield fewer, parts[1:]
    for above in range(len(parts) + 1):
        yield narrow, parts[above:]


def _stacked(shown: Sequence[JudgedRow], names: Sequence[Cells], comparison: Comparison, width: int) -> list[str]:
    """A paragraph for each row, where there is no room for columns."""
    metric = quantity_of(comparison)
    lines = []
    for row, parts in zip(shown, names, strict=True):
        lines += paragraphs([row_names.format_parts(parts)], width)
        lines += paragraphs([f"{row.verdict.glyph} {sentence(row, metric)}"], width, INDENT)
    return lines
