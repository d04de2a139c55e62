"""A comparison as plain text for a terminal or a log. Nothing is cropped at any width."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kbench.comparison.environment_differences import EnvironmentDifference
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation import report_lines
from kbench.comparison.presentation.groups import grouped, sections
from kbench.comparison.presentation.report_lines import WEIGHTS
from kbench.comparison.presentation.row_names import common_parts, ordered, with_short_dtype
from kbench.comparison.presentation.text_layout import INDENT, column_widths, line, paragraphs, total
from kbench.comparison.presentation.text_table import table
from kbench.comparison.presentation.wording import Paint, painted, unpainted
from kbench.comparison.verdict import Verdict
from kbench.text.words import plural


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
        return "\n".join(paragraphs([report_lines.headline(comparison)], width)) + "\n"
    shown = [row for row in ordered(comparison, sort) if not only or row.verdict in only]
    hidden = len(comparison.rows) - len(shown)
    common, paint = common_parts(comparison), painted if colour else unpainted
    tables = [table(shown, comparison, common, width, paint)]
    if sort == "verdict":
        tables = [
            (table if changed else _groups)(rows, comparison, common, width, paint) for changed, rows in sections(shown)
        ]
    blocks = [
        _gate(comparison, width, paint),
        _head(comparison, with_short_dtype(common), width),
        *(_differences(comparison, contender, width) for contender in comparison.contenders),
        paragraphs([*report_lines.drifts(comparison), *(f"note: {note}" for note in comparison.notes)], width),
        *tables,
        paragraphs(report_lines.geomeans(comparison), width),
        [
            report_lines.summary(comparison) + (f" ({plural(hidden, 'row')} not shown)" if hidden else ""),
            *paragraphs(report_lines.next_steps(comparison, unclear_advice), width),
        ],
    ]
    return "\n\n".join("\n".join(map(str.rstrip, block)) for block in blocks if block) + "\n"


def _gate(comparison: Comparison, width: int, paint: Paint) -> list[str]:
    """One line on whether the gate passed; nothing if there is no gate and the comparison passed."""
    result = comparison.gate.judge(comparison)
    unclear = Verdict.UNCLEAR in comparison.counts
    like = Verdict.SLOWER if not result.passed else Verdict.UNCLEAR if unclear else Verdict.FASTER
    told = paragraphs([f"{like.glyph} {result.text}"], width) if result.text else []
    return [paint(like, line) for line in told]


def _groups(
    shown: Sequence[JudgedRow], comparison: Comparison, common: Collection[str], width: int, paint: Paint
) -> list[str]:
    """A paragraph for each group of rows."""
    lines = []
    for group in grouped(shown, comparison, common):
        verdict = f"{group.verdict.glyph} {group.verdict}"
        first, *others = paragraphs([f"{verdict}  {group.text}"], width, hang=INDENT)
        lines += [paint(group.verdict, verdict) + first.removeprefix(verdict), *others]
    return lines


def _head(comparison: Comparison, common: dict[str, str], width: int) -> list[str]:
    facts = report_lines.facts(comparison, common)
    names = column_widths([{"": name} for name, _ in facts], [""])
    named = (line({"": name}, names) + value for name, value in facts)
    return paragraphs([report_lines.title(comparison)], width) + paragraphs(named, width, hang=" " * total(names))


def _differences(comparison: Comparison, contender: str, width: int) -> list[str]:
    """What differs between the files: in columns, or a line each where columns are too wide."""
    found = [difference for difference in comparison.differences if difference.contender == contender]
    if not found:
        return []
    names = {"not the same": "not the same", "old": comparison.baseline, "new": contender, "": ""}
    cells = [dict(zip(names, each, strict=True)) for each in map(_cells, found)]
    widths = column_widths([names, *cells], names)
    if total(widths) <= width:
        return [line(row, widths) for row in (names, *cells)]
    return paragraphs((f"{name}: {old} -> {new} ({weight})" for name, old, new, weight in map(_cells, found)), width)


def _cells(difference: EnvironmentDifference) -> tuple[str, str, str, str]:
    old, new = difference.old, difference.new
    return difference.name, old, new, WEIGHTS[difference.weight]
