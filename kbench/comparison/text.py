"""A comparison as plain text for a terminal or a log. Nothing is cropped at any width."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence

from rich.cells import cell_len

from kbench.comparison import report
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.verdict import Verdict
from kbench.comparison.wording import Paint, painted, plus_minus, unpainted
from kbench.text.words import plural

GAP, INDENT = "  ", "    "

PLUS_MINUS = "\N{PLUS-MINUS SIGN}95%"
"""The head of a column that is narrower than the interval."""

Columns = dict[str, list[str]]


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
    common, paint = report.common_parts(comparison), painted if colour else unpainted
    parts = report.sections(shown) if sort == "verdict" else [(True, shown)] if shown else []
    blocks = [
        _gate(comparison, width, paint),
        _head(comparison, report.with_short_dtype(common), width),
        _differences(comparison, width),
        _paragraphs([*report.drifts(comparison), *(f"note: {note}" for note in comparison.notes)], width),
        *((_table if changed else _groups)(rows, comparison, common, width, paint) for changed, rows in parts),
        _paragraphs([report.geomean(comparison)], width),
        [
            report.summary(comparison) + (f" ({plural(hidden, 'row')} not shown)" if hidden else ""),
            *_paragraphs(report.next_steps(comparison, unclear_advice), width),
        ],
    ]
    return "\n\n".join("\n".join(map(str.rstrip, block)) for block in blocks if block) + "\n"


def _paragraphs(texts: Iterable[str], width: int, first: str = "", others: str = GAP) -> list[str]:
    """The lines of wrapped paragraphs, with what precedes the first line of each and its other lines. Words are never split, so
    that paths and names can be found and copied."""
    wrapper = textwrap.TextWrapper(
        max(width, len(others) + 1),
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line for text in texts for line in wrapper.wrap(text)]


def _gate(comparison: Comparison, width: int, paint: Paint) -> list[str]:
    """The result of the gate; nothing if there is no gate and the comparison passed."""
    gate = comparison.gate
    unclear = Verdict.UNCLEAR in comparison.counts
    like = Verdict.SLOWER if not gate.passed else Verdict.UNCLEAR if unclear else Verdict.FASTER
    lines = _paragraphs([f"{like.glyph} {gate.text}"], width) if gate.text else []
    return [paint(like, line) for line in lines]


def _head(comparison: Comparison, common: dict[str, str], width: int) -> list[str]:
    facts = report.facts(comparison, common)
    size = max(len(name) for name, _ in facts) + len(GAP)
    named = (f"{name:{size}}{value}" for name, value in facts)
    return _paragraphs([report.title(comparison)], width) + _paragraphs(named, width, others=" " * size)


def _differences(comparison: Comparison, width: int) -> list[str]:
    """What differs between the files: in columns, or a line each where columns are too wide."""
    rows = [(each.name, each.old, each.new, report.WEIGHTS[each.weight]) for each in comparison.differences]
    heads = ("not the same", comparison.old, comparison.new, "")
    lines = _aligned([heads, *rows]) if rows else []
    if all(cell_len(line) <= width for line in lines):
        return lines
    return _paragraphs((f"{name}: {old} -> {new} ({weight})" for name, old, new, weight in rows), width)


def _groups(
    rows: Sequence[JudgedRow], comparison: Comparison, common: Collection[str], width: int, paint: Paint
) -> list[str]:
    """A paragraph for each group of rows."""
    lines = []
    for group in report.grouped(rows, comparison, common):
        verdict = _verdict(group.first)
        first, *others = _paragraphs([f"{verdict}  {group.text}"], width, others=INDENT)
        lines += [paint(group.first.verdict, verdict) + first.removeprefix(verdict), *others]
    return lines


def _table(
    rows: Sequence[JudgedRow], comparison: Comparison, common: Collection[str], width: int, paint: Paint
) -> list[str]:
    """A line for each row: name, old and new value, change, and verdict with its reason. Where that is too wide, the first
    parts of names stand on a line above the rows that share them. A short reason follows its verdict; a long one becomes a
    footnote, which rows share."""
    names = [report.with_short_dtype(report.name_parts(row, common)) for row in rows]
    numbers = _columns(report.number_cells(rows, comparison))
    verdicts = {"verdict": [_verdict(row) for row in rows]}
    reasons = list(dict.fromkeys(row.reason for row in rows if row.reason))
    mark = len(f" ({len(reasons)})") if reasons else 0
    for chosen, above in _layouts(numbers, rows, len(names[0])):
        indent = GAP if above else ""
        beside = dict(list(_columns(names).items())[above:])
        table = {**beside, **chosen, **verdicts}
        room = width - len(indent) - _width(table)
        if room >= mark:
            break
    else:
        return _stacked(rows, names, comparison, width)
    long = [reason for reason in reasons if cell_len(f": {reason}") > room]
    footnotes = {reason: f"({number})" for number, reason in enumerate(long, start=1)}
    for place, row in enumerate(rows):
        ending = f" {footnotes[row.reason]}" if row.reason in footnotes else f": {row.reason}" if row.reason else ""
        table["verdict"][place] = paint(row.verdict, table["verdict"][place]) + ending
    sizes = {name for name, cells in beside.items() if all(cell.isdigit() for cell in cells)}
    header, *body = _aligned([list(table), *zip(*table.values(), strict=True)], {*sizes, *chosen})
    headings = [report.format_parts(dict(list(parts.items())[:above])) for parts in names]
    lines = [indent + header]
    for place, line in enumerate(body):
        if above and headings[place] not in headings[max(place - 1, 0) : place]:
            lines += _paragraphs([headings[place]], width)
        lines.append(indent + line)
    return [*lines, *_paragraphs((f"{number} {reason}" for reason, number in footnotes.items()), width)]


def _layouts(numbers: Columns, rows: Sequence[JudgedRow], parts: int) -> Iterator[tuple[Columns, int]]:
    """The columns of numbers, and how many parts of a name stand above its row; the widest layout first."""
    without_q = {name: cells for name, cells in numbers.items() if name != report.Q}
    narrow = {(PLUS_MINUS if name == report.INTERVAL else name): cells for name, cells in without_q.items()}
    if PLUS_MINUS in narrow:
        narrow[PLUS_MINUS] = [plus_minus(row.ratio, row.ci) if row.ratio and row.ci else "" for row in rows]
    yield numbers, 0
    yield without_q, 0
    for above in range(parts + 1):
        yield narrow, above


def _columns(cells: Sequence[dict[str, str]]) -> Columns:
    return {name: [line[name] for line in cells] for name in cells[0]}


def _width(columns: Columns) -> int:
    """The width of columns with their heads and the gaps between them."""
    sizes = [max(map(cell_len, [name, *cells])) for name, cells in columns.items()]
    return sum(sizes) + len(GAP) * (len(sizes) - 1)


def _aligned(lines: Sequence[Sequence[str]], right: Collection[str] = ()) -> list[str]:
    """Cells in columns; a CJK character takes two columns of the terminal. The first line has the heads. `rich.table` needs
    ten times as long for thousands of rows, most of it to wrap cells, which never wrap here."""
    columns = []
    for cells in zip(*lines, strict=True):
        size = max(map(cell_len, cells))
        blanks = [" " * (size - cell_len(cell)) for cell in cells]
        columns.append(
            [blank + cell if cells[0] in right else cell + blank for cell, blank in zip(cells, blanks, strict=True)]
        )
    return [GAP.join(line) for line in zip(*columns, strict=True)]


def _stacked(
    rows: Sequence[JudgedRow], names: Sequence[dict[str, str]], comparison: Comparison, width: int
) -> list[str]:
    """A paragraph for each row, where there is no room for columns."""
    metric = report.quantity_of(comparison)
    lines = []
    for row, parts in zip(rows, names, strict=True):
        lines += _paragraphs([report.format_parts(parts)], width)
        lines += _paragraphs([f"{row.verdict.glyph} {report.sentence(row, metric)}"], width, INDENT, INDENT)
    return lines


def _verdict(row: JudgedRow) -> str:
    return f"{row.verdict.glyph} {row.verdict}"
