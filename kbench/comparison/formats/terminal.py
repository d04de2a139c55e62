"""A comparison as plain text for a terminal or a log: complete at any width, without frames."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kbench.comparison import Comparison
from kbench.comparison.environment_differences import Difference
from kbench.comparison.presentation import header
from kbench.comparison.presentation.groups import grouped, sections
from kbench.comparison.presentation.header import WEIGHTS
from kbench.comparison.presentation.layout import INDENT, columns, line, paragraphs, total
from kbench.comparison.presentation.rows import brief, ordered, shared
from kbench.comparison.presentation.table import table
from kbench.comparison.presentation.words import GLYPHS, Paint, painted, plain, unpainted
from kbench.comparison.verdict import Verdict


def text(
    comparison: Comparison, width: int = 80, sort: str = "verdict", only: Collection[str] = (), *, colour: bool = False
) -> str:
    """The report: the gate's result first, the summary last and below it what to do next. `only` has the verdicts to show;
    none of them means all.

    Raises UsageError for an order that is none.
    """
    if comparison.nothing_common:
        return "\n".join(paragraphs([header.headline(comparison)], width)) + "\n"
    shown = [row for row in ordered(comparison, sort) if not only or row.word in only]
    hidden = len(comparison.rows) - len(shown)
    common, paint = shared(comparison), painted if colour else unpainted
    tables = [table(shown, comparison, common, width, paint)]
    if sort == "verdict":
        tables = [
            (table if changed else _groups)(rows, comparison, common, width, paint) for changed, rows in sections(shown)
        ]
    blocks = [
        _gate(comparison, width, paint),
        _head(comparison, brief(common), width),
        *(_differences(comparison, contender, width) for contender in comparison.contenders),
        paragraphs([*header.drifts(comparison), *(f"note: {plain(note)}" for note in comparison.notes)], width),
        *tables,
        paragraphs([*header.footnotes(comparison), *header.geomeans(comparison)], width),
        [
            header.summary(comparison) + (f" ({hidden} rows not shown)" if hidden else ""),
            *paragraphs(header.next_steps(comparison), width),
        ],
    ]
    return "\n\n".join("\n".join(map(str.rstrip, block)) for block in blocks if block) + "\n"


def _gate(comparison: Comparison, width: int, paint: Paint) -> list[str]:
    """One line on whether the gate passed; none where nobody asked and nothing is amiss."""
    result = comparison.gate.judge(comparison)
    word = "faster" if result.passed else "slower"
    told = paragraphs([f"{GLYPHS[word]} {result.text}"], width) if result.text else []
    return [paint(word, line) for line in told]


def _groups(
    shown: Sequence[Verdict], comparison: Comparison, common: Collection[str], width: int, paint: Paint
) -> list[str]:
    """A paragraph for each group of rows."""
    lines = []
    for group in grouped(shown, comparison, common):
        verdict = f"{GLYPHS[group.word]} {group.word}"
        first, *others = paragraphs([f"{verdict}  {group.told}"], width, hang=INDENT)
        lines += [paint(group.word, verdict) + first.removeprefix(verdict), *others]
    return lines


def _head(comparison: Comparison, common: dict[str, str], width: int) -> list[str]:
    facts = header.facts(comparison, common)
    names = columns([{"": name} for name, _ in facts], [""])
    named = (line({"": name}, names) + value for name, value in facts)
    return paragraphs([header.title(comparison)], width) + paragraphs(named, width, hang=" " * total(names))


def _differences(comparison: Comparison, contender: str, width: int) -> list[str]:
    """Two columns, or a line each where those are too wide: what forbids the comparison first."""
    found = [difference for difference in comparison.differences if difference.contender == contender]
    if not found:
        return []
    names = {"not the same": "not the same", "old": plain(comparison.baseline), "new": plain(contender), "": ""}
    cells = [dict(zip(names, told, strict=True)) for told in map(_told, found)]
    widths = columns([names, *cells], names)
    if total(widths) <= width:
        return [line(row, widths) for row in (names, *cells)]
    return paragraphs((f"{name}: {old} -> {new} ({weight})" for name, old, new, weight in map(_told, found)), width)


def _told(difference: Difference) -> tuple[str, str, str, str]:
    old, new = plain(difference.old), plain(difference.new)
    return plain(difference.name), old, new, WEIGHTS[difference.weight]
