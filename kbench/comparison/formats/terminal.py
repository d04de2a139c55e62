"""A comparison as plain text for a terminal or a log: complete at any width, without colour and frames."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby

from kbench.comparison import Comparison
from kbench.comparison.environment import Difference
from kbench.comparison.formats import header
from kbench.comparison.formats.header import WEIGHTS
from kbench.comparison.formats.layout import columns, line, paragraphs, total
from kbench.comparison.formats.rows import ordered, shared
from kbench.comparison.formats.table import table
from kbench.comparison.formats.words import plain


def text(comparison: Comparison, width: int = 80, sort: str = "verdict", only: Collection[str] = ()) -> str:
    """The report, the summary last and below it what to do next. `only` has the verdicts to show; none of them means all.

    Raises TableError for an order that is none.
    """
    shown = [row for row in ordered(comparison, sort) if not only or row.word in only]
    hidden = len(comparison.rows) - len(shown)
    groups = [list(rows) for _, rows in groupby(shown, lambda row: row.word)] if sort == "verdict" else [shown]
    common = shared(comparison)
    blocks = [
        _head(comparison, common, width),
        *(_differences(comparison, contender, width) for contender in comparison.contenders),
        paragraphs([*header.drifts(comparison), *(f"note: {plain(note)}" for note in comparison.notes)], width),
        *(table(group, comparison, common, width) for group in groups),
        paragraphs(header.geomeans(comparison), width),
        [
            header.summary(comparison) + (f" ({hidden} rows not shown)" if hidden else ""),
            *paragraphs(header.next_steps(comparison), width),
        ],
    ]
    return "\n\n".join("\n".join(map(str.rstrip, block)) for block in blocks if block) + "\n"


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
