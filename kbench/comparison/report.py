"""A comparison as text: the lines around its rows, its rows in tables, and groups of rows without a change.

The terminal's report is `text`. Markdown, notebooks and HTML pages lay the same lines, tables and groups out in their own way,
and escape what their readers would obey. None of them judges.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from kbench.analysis.cases import more_sessions
from kbench.comparison.model import ENOUGH_CASES, CompareOptions, Comparison, Drift, JudgedRow, Severity
from kbench.comparison.verdict import Cause, Verdict
from kbench.errors import UsageError
from kbench.results.row import CONDITION_COLUMNS
from kbench.text.numbers import factor, format_change, format_share, interval, probability
from kbench.text.suggest import unknown
from kbench.text.table import GAP, Table
from kbench.text.words import list_words, plural

INDENT = " " * GAP

Q, REASON = "q", "reason"
"""The heads of columns that a narrow terminal has no room for."""

CASES_NAMED = 6
"""So many cases of a group are named."""

SELF_EXPLAINING = ("operator", "dtype", "provider")
"""Parts of a name whose values are clear without `name=`."""

_COLOURS = {"!": "31", "+": "32", "?": "33", "x": "33"}
"""ANSI codes by glyph: red, green, yellow. `same` and `untimed` have no colour."""


# ---- the report on a terminal


def text(
    comparison: Comparison,
    width: int = 80,
    sort: str = "verdict",
    only: Collection[str] = (),
    *,
    colour: bool = False,
    unclear_advice: str = "",
) -> str:
    """The report as plain text for a terminal or a log: the result of the gate first, the counts and the next steps last.
    Nothing is cropped at any width. `only` lists the verdicts to show; empty means all. `unclear_advice` is that of
    `next_steps`.

    Raises UsageError for an unknown order.
    """
    shown = [row for row in ordered(comparison, sort) if not only or row.verdict in only]
    hidden = len(comparison.rows) - len(shown)
    parts: Iterable[tuple[bool, list[JudgedRow]]] = [(True, shown)] if shown else []
    if sort == "verdict":
        parts = sections(shown)
    blocks = [
        _gate(comparison, width, colour),
        _head(comparison, width),
        difference_table(comparison).lines(width) if comparison.differences else [],
        _paragraphs([*drifts(comparison), *(f"note: {note}" for note in comparison.notes)], width),
        *((_rows if changed else _groups)(rows, comparison, width, colour) for changed, rows in parts),
        _paragraphs([geomean(comparison)], width),
        [
            summary(comparison) + (f" ({plural(hidden, 'row')} not shown)" if hidden else ""),
            *_paragraphs(next_steps(comparison, unclear_advice), width),
        ],
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def paint(verdict: Verdict, text: str, colour: bool) -> str:
    """The text in the colour of a verdict, if the terminal has colours."""
    code = _COLOURS.get(verdict.glyph) if colour else None
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def paint_mark(line: str, verdict: Verdict, colour: bool) -> str:
    """A line with its first mark of the verdict in the verdict's colour."""
    return line.replace(verdict.mark, paint(verdict, verdict.mark, colour), 1)


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
    if not gate.text:
        return []
    like = Verdict.UNCLEAR if Verdict.UNCLEAR in comparison.counts else Verdict.FASTER
    if not gate.passed:
        like = Verdict.SLOWER
    return [paint(like, line, colour) for line in _paragraphs([f"{like.glyph} {gate.text}"], width)]


def _head(comparison: Comparison, width: int) -> list[str]:
    named_facts = facts(comparison)
    size = max(map(len, named_facts)) + GAP
    lines = (f"{name:{size}}{value}" for name, value in named_facts.items())
    return _paragraphs([title(comparison)], width) + _paragraphs(lines, width, " " * size)


def _groups(rows: Sequence[JudgedRow], comparison: Comparison, width: int, colour: bool) -> list[str]:
    """A paragraph for each group of rows."""
    lines = []
    for group in grouped(rows, comparison):
        first, *others = _paragraphs([f"{group.first.verdict.mark}  {group.text}"], width, 2 * INDENT)
        lines += [paint_mark(first, group.first.verdict, colour), *others]
    return lines


def _rows(rows: Sequence[JudgedRow], comparison: Comparison, width: int, colour: bool) -> list[str]:
    """A line for each row. Where that is too wide, reasons become footnotes, q is left out, and then one more of the first
    parts of the names stands on a line above the rows that share it."""
    table = row_table(rows, comparison)
    footnotes: dict[str, str] = {}
    if table.width > width and REASON in table.header:
        reasons = dict.fromkeys(row.reason for row in rows if row.reason)
        footnotes = {reason: f" ({number})" for number, reason in enumerate(reasons, start=1)}
        marked = [[*cells[:-2], cells[-2] + footnotes.get(cells[-1], "")] for cells in table.rows]
        table = Table(table.header[:-1], marked)
    heads = list(name_parts(rows[0], comparison.common))
    if Q in table.header[len(heads) :]:  # an axis may be called q, too
        table = table.without([Q], width)
    whole, above = table, 0
    while above < len(heads) and table.width + len(INDENT) * bool(above) > width:
        above += 1
        table = Table(whole.header[above:], [cells[above:] for cells in whole.rows])
    indent = INDENT if above else ""
    head, *body = table.lines()
    lines, heading = [indent + head], ""
    for row, cells, line in zip(rows, whole.rows, body, strict=True):
        earlier, heading = heading, format_parts(dict(zip(heads[:above], cells[:above], strict=True)))
        if heading != earlier:
            lines += _paragraphs([heading], width)
        lines.append(indent + paint_mark(line, row.verdict, colour))
    return [*lines, *_paragraphs((f"{number.strip()} {reason}" for reason, number in footnotes.items()), width)]


# ---- the lines around the rows


def title(comparison: Comparison) -> str:
    """`new.csv against base.csv`"""
    return f"{comparison.new} against {comparison.old}"


def headline(comparison: Comparison) -> str:
    """The outcome on one line: the result of the gate, if there is a gate, and the counts."""
    return "; ".join(filter(None, [comparison.gate.text, summary(comparison)]))


def summary(comparison: Comparison) -> str:
    """One line: `1 slower, 46 same, 3 unclear`."""
    return ", ".join(f"{count} {verdict}" for verdict, count in comparison.counts.items()) or "no rows"


def facts(comparison: Comparison) -> dict[str, str]:
    """What was compared and under which conditions, by name, without what is not known."""
    options = comparison.options
    metric = options.compared
    sides = [side for row in comparison.rows for side in (row.old, row.new) if side]
    conditions = []
    for name in CONDITION_COLUMNS:
        if value := "/".join(sorted({value for side in sides for value in side.conditions[name]})):
            conditions.append(value if name == "device" else f"{name} {value}")
    pooled = " (geomean of sessions)" if any(len(side.readings) > 1 for side in sides) else ""
    direction = "slower" if metric.lower_is_better else "faster"
    shared = dict(comparison.common)
    if "provider" in shared:
        shared["provider"] = f"provider {shared['provider']}"
    values = {
        "conditions": ", ".join(conditions),
        "sessions": "/".join(map(str, sorted({side.sessions for side in sides}))),
        "compared": f"{metric.quantity} in {metric.unit}{pooled}, more is {direction}; margin {options.margin * 100:g}%",
        "every row": format_parts(shared),
    }
    return {name: value for name, value in values.items() if value}


def difference_table(comparison: Comparison) -> Table:
    """What differs between the files: the name, both values, and what that does."""
    lines = []
    for difference in comparison.differences:
        effect = "varied on purpose" if difference.severity is Severity.VARIED else "may explain a change"
        if difference.severity is Severity.CONDITION:
            sides = [(row.old, row.new) for row in comparison.rows if row.verdict is Verdict.INCOMPARABLE]
            count = sum(difference.name in old.differing_conditions(new, ()) for old, new in sides if old and new)
            rows = f"{count} of {plural(len(comparison.rows), 'row')}"
            effect = f"makes {rows} incomparable" if count else "concerns no row that both files have"
        lines.append((difference.name, difference.old, difference.new, effect))
    return Table(("not the same", "old", "new", ""), lines)


def drifts(comparison: Comparison) -> Iterator[str]:
    """How the machine changed between the sides, and the noise floor: one line for each device."""
    for device, drift in comparison.drifts.items():
        noise = f"noise floor {format_share(drift.noise)} (repeat control)" if drift.noise else ""
        moved = _moved(drift, comparison.options)
        yield (f"{device}: " if device else "") + "; ".join(filter(None, [moved, noise]))


def _moved(drift: Drift, options: CompareOptions) -> str:
    if drift.ratio is None:
        return "machine drift unknown: the files have no copy control in common"
    kinds = [f"{kind} {format_change(math.exp(change))}" for kind, change in drift.gauges.items()]
    shown = ", ".join(kinds if len(kinds) > 1 else drift.gauges)
    moved = f"machine drift {format_change(drift.ratio)} ({shown}, {plural(drift.cases, 'case')})"
    if not options.compared.drifts:
        return f"{moved}, which cancels in this metric"
    if not drift.subtracted:
        return f"{moved}, not subtracted from the changes, because that needs {ENOUGH_CASES} cases"
    return f"{moved}, subtracted from the changes"


def notes(comparison: Comparison) -> list[str]:
    """What a reader must know before the rows, a line each."""
    return [
        *(f"{name}: {value}" for name, value in facts(comparison).items()),
        *drifts(comparison),
        geomean(comparison),
        *comparison.notes,
    ]


def _without_drift(comparison: Comparison) -> bool:
    """Whether the machine's drift was removed from the changes. They are then not the quotients of the two values."""
    return comparison.options.compared.drifts and any(drift.subtracted for drift in comparison.drifts.values())


def geomean(comparison: Comparison) -> str:
    """`geomean of time ratios 0.994 [0.989, 0.999] over 47 of 50 rows`"""
    mean, name = comparison.geomean, comparison.options.compared.quantity
    rows = f"{mean.rows} of {mean.total} rows"
    if mean.ratio is None:
        return f"no geomean of {name} ratios: {rows} have a ratio"
    ends = f" [{factor(mean.ci[0])}, {factor(mean.ci[1])}]" if mean.ci else ""
    return f"geomean of {name} ratios {factor(mean.ratio)}{ends} over {rows}{', weighted' * mean.weighted}"


def next_steps(comparison: Comparison, unclear_advice: str = "") -> Iterator[str]:
    """What would settle or explain rows. `unclear_advice` is the line about unclear rows; empty names the option `--append`."""
    unclear = [
        row
        for row in comparison.rows
        if row.verdict is Verdict.UNCLEAR
        and not row.comes_from(Cause.TOO_NOISY, Cause.NOISY_MACHINE)  # their reason says what would help
    ]
    drifted = [row for row in unclear if row.comes_from(Cause.DRIFT)]
    if unclear and unclear_advice:
        yield unclear_advice
    elif len(drifted) < len(unclear):
        readings = [reading for row in unclear for side in (row.old, row.new) if side for reading in side.readings]
        yield (
            "unclear rows may need more sessions in both files: repeat the command that measured each of them, with "
            f"{more_sessions(readings)}, or as many as the reason of a row says"
        )
    if drifted and not unclear_advice:
        yield (
            "where the drift of the machine may explain a change, measure both sides in turn: kbench ab does so for "
            "two git revisions"
        )
    failed = {row.new.status.value for row in comparison.rows if row.verdict is Verdict.FAILED and row.new}
    if failed:
        yield f"to understand failed rows: {', '.join(f'kbench explain {status}' for status in sorted(failed))}"


# ---- names and order of rows


def name_parts(row: JudgedRow, without: Collection[str]) -> dict[str, str]:
    """The parts of a row's name by column, without those that all rows share."""
    return {name: value for name, value in row.key.parts.items() if name not in without}


def format_parts(parts: Mapping[str, str]) -> str:
    """`softmax fp32 M=4096 N=256 triton`"""
    return " ".join(value if name in SELF_EXPLAINING else f"{name}={value}" for name, value in parts.items())


def ordered(comparison: Comparison, sort: str = "verdict") -> list[JudgedRow]:
    """All rows, sorted by `verdict` (rows that need attention first), `key` or `change` (the worst first). Raises UsageError
    for another order."""
    better = comparison.options.compared.sign
    orders: dict[str, Callable[[JudgedRow], float]] = {
        "verdict": lambda row: row.verdict.rank,
        "key": lambda row: 0,  # rows are sorted by key already
        "change": lambda row: math.inf if row.ratio is None else row.ratio * better,
    }
    if sort not in orders:
        raise UsageError(f"--sort: {unknown('order', sort, list(orders))}")
    return sorted(comparison.rows, key=orders[sort])


def sections(rows: Iterable[JudgedRow]) -> Iterator[tuple[bool, list[JudgedRow]]]:
    """Rows in the order of their verdicts, in sections: the rows of a verdict that have a change (True), and rows without a
    change (False), which several verdicts may share."""

    def section(row: JudgedRow) -> tuple[bool, str]:
        changed = row.ratio is not None
        return changed, row.verdict if changed or row.verdict.quiet else ""

    in_order = sorted(rows, key=lambda row: (row.verdict.rank, row.ratio is None))
    for (changed, _), members in groupby(in_order, section):
        yield changed, list(members)


# ---- rows with a change


def row_table(rows: Sequence[JudgedRow], comparison: Comparison) -> Table:
    """A line for each row: its name without the parts that all rows share, the old and the new value, the change, its interval,
    q, the verdict and the reason. Columns that are empty in all rows are left out."""
    metric = comparison.options.compared
    names = [name_parts(row, comparison.common) for row in rows]
    quantity = f"{metric.quantity} - drift" if _without_drift(comparison) else metric.quantity
    # with one session, it is no statistic
    of_sessions = all(row.q is not None for row in rows if row.ci)
    numbers = (f"old {metric.unit}", f"new {metric.unit}", quantity, "95% interval" if of_sessions else "interval", Q)
    lines = [
        [*name.values(), *row_numbers(row, comparison), row.verdict.mark, row.reason]
        for name, row in zip(names, rows, strict=True)
    ]
    return Table((*names[0], *numbers, "verdict", REASON), lines).without_empty((*numbers, REASON))


def row_numbers(row: JudgedRow, comparison: Comparison) -> list[str]:
    """The old value, the new value, the change, its interval and q as text; "" for what a row does not have."""
    values = [side.value if side else None for side in (row.old, row.new)]
    return [
        *("" if value is None else comparison.options.compared.written(value) for value in values),
        "" if row.ratio is None else format_change(row.ratio),
        interval(row.ci) if row.ci else "",
        "" if row.q is None else probability(row.q),
    ]


def sentence(row: JudgedRow, comparison: Comparison) -> str:
    """A row with a change on one line: `slower: time +5.3% [+4.6, +6.1], 31.42 -> 33.10 us, q 0.001; only 2 sessions`."""
    metric = comparison.options.compared
    old, new, change, ends, q = row_numbers(row, comparison)
    basis = " without drift" if _without_drift(comparison) else ""
    numbers = [f"{metric.quantity} {change} {ends}{basis}", f"{old} -> {new} {metric.unit}", f"q {q}" if q else ""]
    return f"{row.verdict}: {'; '.join(filter(None, [', '.join(filter(None, numbers)), row.reason]))}"


# ---- rows without a change


class Group(NamedTuple):
    """Rows of one provider that have the same verdict, from the same causes: the first one, how many they are, and in words
    `boom, all 12 cases: for example RuntimeError ...`."""

    first: JudgedRow
    size: int
    text: str


def grouped(rows: Iterable[JudgedRow], comparison: Comparison) -> list[Group]:
    """The groups of rows, in the order of their first rows."""
    totals = Counter(row.key.configuration_name for row in comparison.rows)
    members: dict[object, list[JudgedRow]] = {}
    for row in rows:
        statuses = [side and side.status for side in (row.old, row.new)]
        causes = [reason.cause for reason in row.reasons]
        members.setdefault((row.verdict, row.key.configuration_name, *statuses, *causes), []).append(row)
    groups = []
    for group in members.values():
        first, provider = group[0], group[0].key.configuration_name
        subject = f"{provider}, {_extent(group, totals[provider], comparison.common)}"
        same = all(row.reason == first.reason for row in group)
        reason = first.reason if same else f"for example {first.reason}"
        groups.append(Group(first, len(group), f"{subject}: {reason}" if reason else subject))
    return groups


def _extent(group: Sequence[JudgedRow], total: int, common: Collection[str]) -> str:
    """`all 12 cases`, `2 of 12 cases (bf16 N=1024, bf16 N=2048)`"""
    if len(group) == total > 1:
        return f"all {total} cases"
    cases = [format_parts(name_parts(row, {*common, "provider"})) for row in group]
    how_many = "1 case" if total == 1 else f"{len(group)} of {total} cases"
    return f"{how_many} ({list_words(cases, CASES_NAMED)})" if any(cases) else how_many
