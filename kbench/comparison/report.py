"""What a report says: the lines around its rows, the names, order and numbers of its rows, and groups of them.

Each format lays this out in its own way, and escapes what its readers would obey. None of them judges.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kbench.comparison.drift import ENOUGH_CASES, Drift
from kbench.comparison.environment_differences import Weight
from kbench.comparison.join import Side
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.options import CompareOptions
from kbench.comparison.reason import Cause
from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.results.case import DTYPE_ALIASES
from kbench.results.row import CONDITION_COLUMNS
from kbench.text.numbers import factor, format_change, format_share, interval, probability
from kbench.text.suggest import unknown
from kbench.text.table import Table
from kbench.text.words import list_words, plural

Q, REASON = "q", "reason"
"""The heads of columns that a narrow terminal has no room for."""

CASES_NAMED = 6
"""So many cases of a group are named."""

SELF_EXPLAINING = ("operator", "dtype", "provider")
"""Parts of a name whose values are clear without `name=`."""

WEIGHTS = {
    Weight.REFUSE: "forbids the comparison",
    Weight.WARN: "may explain a change",
    Weight.VARIED: "varied on purpose",
}

_SHORT_DTYPES = {dtype: alias for alias, dtype in DTYPE_ALIASES.items() if alias.startswith(("fp", "bf"))}


# ---- the lines around the rows


def title(comparison: Comparison) -> str:
    """`new.csv against base.csv`"""
    return f"{comparison.new} against {comparison.old}"


def headline(comparison: Comparison) -> str:
    """The outcome on one line: the result of the gate, if there is a gate, and the counts."""
    if comparison.nothing_common:
        return comparison.nothing_common
    return "; ".join(filter(None, [comparison.gate.text, summary(comparison)]))


def summary(comparison: Comparison) -> str:
    """One line: `1 slower, 46 same, 3 unclear`."""
    return ", ".join(f"{count} {verdict}" for verdict, count in comparison.counts.items()) or "no rows"


def facts(comparison: Comparison, common: dict[str, str]) -> list[tuple[str, str]]:
    """What was compared and under which conditions, as names and values, without unknown values.

    `common` holds the parts of names that all rows share.
    """
    options = comparison.options
    metric = options.compared
    old = [row.old for row in comparison.rows if row.old]
    new = [row.new for row in comparison.rows if row.new]
    pooled = " (geomean of sessions)" if any(len(side.readings) > 1 for side in [*old, *new]) else ""
    direction = "slower" if metric.lower_is_better else "faster"
    compared = f"{metric.quantity} in {metric.unit}{pooled}, more is {direction}; margin {options.margin * 100:g}%"
    provider = {"provider": f"provider {common['provider']}"} if "provider" in common else {}
    facts = [
        ("conditions", ", ".join(_conditions(old, new))),
        ("sessions", _sessions(comparison, old, new)),
        ("compared", compared),
        ("every row", format_parts(common | provider)),
    ]
    return [(name, value) for name, value in facts if value]


def _conditions(old: Sequence[Side], new: Sequence[Side]) -> Iterator[str]:
    """The device, timer and cache; `old -> new` where those of the sides differ."""
    for name in CONDITION_COLUMNS:
        of_old, of_new = (
            "/".join(sorted({value for side in sides for value in side.conditions.get(name, ())}))
            for sides in (old, new)
        )
        if value := f"{of_old} -> {of_new}" if of_old and of_new and of_old != of_new else of_old or of_new:
            yield value if name == "device" else f"{name} {value}"


def _sessions(comparison: Comparison, old: Sequence[Side], new: Sequence[Side]) -> str:
    named = ((comparison.old, old), (comparison.new, new))
    most = {label: max(side.sessions for side in sides) for label, sides in named if sides}
    if len(set(most.values())) <= 1:
        return "".join(f"{count} each" for count in set(most.values()))
    return ", ".join(f"{count} of {label}" for label, count in most.items())


def drifts(comparison: Comparison, *, beside_values: bool = True) -> Iterator[str]:
    """How the machine changed between the sides, and the noise floor: one line for each device.

    `beside_values` says whether the reader sees the two values beside each change.
    """
    for device, drift in comparison.drifts.items():
        noise = f"noise floor {format_share(drift.noise)} (repeat control)" if drift.noise else ""
        moved = _moved(drift, comparison.options, beside_values)
        yield (f"{device}: " if device else "") + "; ".join(filter(None, [moved, noise]))


def _moved(drift: Drift, options: CompareOptions, beside_values: bool) -> str:
    if drift.ratio is None:
        return "machine drift unknown: the files have no copy control in common"
    kinds = [f"{kind} {format_change(math.exp(change))}" for kind, change in drift.controls.items()]
    shown = ", ".join(kinds if len(kinds) > 1 else drift.controls)
    moved = f"machine drift {format_change(drift.ratio)} ({shown}, {plural(drift.cases, 'case')})"
    if not drift.subtracted:
        return f"{moved}, not subtracted from the changes, because that needs {ENOUGH_CASES} cases"
    if not options.compared.drifts:
        return f"{moved}, which cancels in this metric"
    return f"{moved}, subtracted from the changes" + (", but not from the old and new values" if beside_values else "")


def without_drift(comparison: Comparison) -> bool:
    """Whether the machine's drift was removed from the changes: they are then not the quotients of the two values."""
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
        and not row.because(Cause.TOO_NOISY, Cause.NOISY_MACHINE)  # their reason says what would help
    ]
    drifted = [row for row in unclear if row.because(Cause.DRIFT)]
    if unclear and unclear_advice:
        yield unclear_advice
    elif len(drifted) < len(unclear):
        few = all(side.sessions == 1 for row in unclear for side in (row.old, row.new) if side)
        hint = "" if few else " (where sessions help, the reason of a row says about how many)"
        yield (
            "unclear rows may need more sessions in both files: repeat the command that measured each of them, with "
            f"--append --sessions {2 if few else 'N'}{hint}"
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


def common_parts(comparison: Comparison) -> dict[str, str]:
    """The parts that all rows have in common. The provider is not one of them if no other part would be left."""
    parts = [name_parts(row) for row in comparison.rows]
    values_of = {name: {part.get(name) for part in parts} for part in parts[:1] for name in part}
    if all(len(values) == 1 for name, values in values_of.items() if name != "provider"):
        values_of.pop("provider", None)
    return {name: str(*values) for name, values in values_of.items() if len(values) == 1}


def name_parts(row: JudgedRow, without: Collection[str] = ()) -> dict[str, str]:
    """The parts of a row's name by column, as text."""
    key = row.key
    parts = {"operator": key.operator, "dtype": key.dtype, **{name: str(value) for name, value in key.axes}}
    parts["provider"] = key.configuration_name
    return {name: value for name, value in parts.items() if name not in without}


def with_short_dtype(parts: dict[str, str]) -> dict[str, str]:
    """The parts with the short name of the dtype: `bf16`."""
    return parts | {"dtype": _SHORT_DTYPES.get(parts["dtype"], parts["dtype"])} if "dtype" in parts else parts


def format_parts(parts: dict[str, str]) -> str:
    """`softmax float32 M=4096 N=256 triton`"""
    return " ".join(value if name in SELF_EXPLAINING else f"{name}={value}" for name, value in parts.items())


def ordered(comparison: Comparison, sort: str = "verdict") -> list[JudgedRow]:
    """All rows, sorted by `verdict` (rows that need attention first), `key`, `change` (the worst first) or `time` (the longest
    first). Raises UsageError for another order.
    """
    better = comparison.options.compared.sign
    orders: dict[str, Callable[[JudgedRow], float]] = {
        "verdict": lambda row: row.verdict.rank,
        "key": lambda row: 0,  # rows are sorted by key already
        "change": lambda row: math.inf if row.ratio is None else row.ratio * better,
        "time": lambda row: -_longest_ms(row),
    }
    if sort not in orders:
        raise UsageError(f"--sort: {unknown('order', sort, list(orders))}")
    return sorted(comparison.rows, key=orders[sort])


def _longest_ms(row: JudgedRow) -> float:
    sides = [side for side in (row.old, row.new) if side]
    return max((reading.ms for side in sides for reading in side.readings), default=0.0)


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


def row_table(rows: Sequence[JudgedRow], comparison: Comparison, common: Collection[str]) -> Table:
    """A line for each row: its name without the parts `common`, the old and the new value, the change, its interval, q, the
    verdict and the reason. Columns that are empty in all rows are left out."""
    metric = comparison.options.compared
    names = [with_short_dtype(name_parts(row, common)) for row in rows]
    change = f"{metric.quantity} - drift" if without_drift(comparison) else metric.quantity
    numbers = (f"old {metric.unit}", f"new {metric.unit}", change, "95% interval", Q)
    lines = [
        [*name.values(), *_numbers(row, comparison), mark(row), row.reason]
        for name, row in zip(names, rows, strict=True)
    ]
    sizes = [head for place, head in enumerate(names[0]) if all(line[place].isdigit() for line in lines)]
    table = Table((*names[0], *numbers, "verdict", REASON), lines, {*numbers, *sizes})
    return table.without_empty((*numbers, REASON))


def _numbers(row: JudgedRow, comparison: Comparison) -> list[str]:
    return [
        *values(row, comparison),
        "" if row.ratio is None else format_change(row.ratio),
        interval(row.ci) if row.ci else "",
        "" if row.q is None else probability(row.q),
    ]


def mark(row: JudgedRow) -> str:
    """`! slower`"""
    return f"{row.verdict.glyph} {row.verdict}"


def values(row: JudgedRow, comparison: Comparison) -> list[str]:
    """The old and the new value as text; "" for a side without a value."""
    values = [side.value if side else None for side in (row.old, row.new)]
    return ["" if value is None else comparison.options.compared.written(value) for value in values]


def sentence(row: JudgedRow, comparison: Comparison) -> str:
    """A row on one line: `slower: time +5.3% [+4.6, +6.1], 31.42 -> 33.10 us, q 0.001; only 2 sessions`."""
    metric, (old, new) = comparison.options.compared, values(row, comparison)
    parts = []
    if row.ratio is not None:
        ends = f" {interval(row.ci)}" if row.ci else ""
        basis = " without drift" if without_drift(comparison) else ""
        parts.append(f"{metric.quantity} {format_change(row.ratio)}{ends}{basis}")
    if old or new:
        parts.append(f"{old or 'none'} -> {new or 'none'} {metric.unit}")
    if row.q is not None:
        parts.append(f"q {probability(row.q)}")
    details = "; ".join(filter(None, [", ".join(parts), row.reason]))
    return f"{row.verdict}: {details}" if details else row.verdict.value


# ---- rows without a change


@dataclass(frozen=True)
class Group:
    """Rows of one provider that have the same verdict, from the same causes.

    first   the first row of the group
    count   how many rows the group has
    who     the provider
    extent  `all 12 cases`, `2 of 12 cases (bf16 N=1024, bf16 N=2048)`
    why     the reason
    """

    first: JudgedRow
    count: int
    who: str
    extent: str
    why: str

    @property
    def text(self) -> str:
        """`boom, all 12 cases: for example RuntimeError ...`"""
        return ": ".join(filter(None, [f"{self.who}, {self.extent}", self.why]))


def grouped(rows: Iterable[JudgedRow], comparison: Comparison, common: Collection[str]) -> list[Group]:
    """The groups of rows, in the order of their first rows. `common` holds the parts of names that all rows share."""
    totals = Counter(row.key.configuration_name for row in comparison.rows)
    members: dict[object, list[JudgedRow]] = {}
    for row in rows:
        statuses = [side and side.status for side in (row.old, row.new)]
        causes = [reason.cause for reason in row.reasons]
        members.setdefault((row.verdict, row.key.configuration_name, *statuses, *causes), []).append(row)
    groups = []
    for group in members.values():
        who, reasons = group[0].key.configuration_name, {row.reason for row in group}
        why = group[0].reason if len(reasons) == 1 else f"for example {group[0].reason}"
        groups.append(Group(group[0], len(group), who, _extent(group, totals[who], common), why))
    return groups


def _extent(group: Sequence[JudgedRow], total: int, common: Collection[str]) -> str:
    if len(group) == total > 1:
        return f"all {total} cases"
    cases = [format_parts(with_short_dtype(name_parts(row, {*common, "provider"}))) for row in group]
    how_many = "1 case" if total == 1 else f"{len(group)} of {total} cases"
    return f"{how_many} ({list_words(cases, CASES_NAMED)})" if any(cases) else how_many
