"""What a report says: the names, order and groups of its rows, their numbers, and the lines around them.

Each format lays this out in its own way, and escapes what its readers would obey. None of them judges.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from kbench.analysis.noise import format_share
from kbench.comparison.drift import ENOUGH_CASES, Drift
from kbench.comparison.environment_differences import Weight
from kbench.comparison.join import Side
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.options import CompareOptions
from kbench.comparison.reason import Cause
from kbench.comparison.verdict import Verdict
from kbench.comparison.wording import Quantity, factor, format_change, interval, probability, quantity
from kbench.errors import UsageError
from kbench.results.case import DTYPE_ALIASES
from kbench.results.row import CONDITION_COLUMNS
from kbench.text.suggest import unknown
from kbench.text.words import plural

MOST_FOOTNOTES = 20
"""At most this many reasons become footnotes of a table."""

INTERVAL, Q = "95% interval", "q"
"""The heads of columns that a narrow terminal has no room for."""

SELF_EXPLAINING = ("operator", "dtype", "provider")
"""Parts of a name whose values are clear without `name=`."""

WEIGHTS = {
    Weight.REFUSE: "forbids the comparison",
    Weight.WARN: "may explain a change",
    Weight.VARIED: "varied on purpose",
}

_SHORT_DTYPES = {dtype: alias for alias, dtype in DTYPE_ALIASES.items() if alias.startswith(("fp", "bf"))}

_NUMBER = re.compile(r"[-+]?\d[\d.,e+-]*")


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


def quantity_of(comparison: Comparison) -> Quantity:
    """What is compared. Its `head` and `basis` mark changes that are not the quotient of the two values beside them: the
    machine's drift was removed."""
    if any(taken_out(drift, comparison.options) for drift in comparison.drifts.values()):
        return quantity(comparison.options.metric, " - drift", " without drift")
    return quantity(comparison.options.metric)


def facts(comparison: Comparison, common: dict[str, str]) -> list[tuple[str, str]]:
    """What was compared and under which conditions, as names and values, without unknown values.

    `common` holds the parts of names that all rows share.
    """
    metric, options = quantity_of(comparison), comparison.options
    old, new = ([side for row in comparison.rows if (side := getattr(row, name))] for name in ("old", "new"))
    pooled = " (geomean of sessions)" if any(len(side.readings) > 1 for side in [*old, *new]) else ""
    direction = "slower" if options.compared.lower_is_better else "faster"
    compared = f"{metric.name} in {metric.unit}{pooled}, more is {direction}; margin {options.margin * 100:g}%"
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


def taken_out(drift: Drift, options: CompareOptions) -> bool:
    """Whether the machine's drift was removed from the changes of the rows."""
    return drift.subtracted and options.compared.drifts


def _moved(drift: Drift, options: CompareOptions, beside_values: bool) -> str:
    if drift.change is None:
        return "machine drift unknown: the files have no copy control in common"
    kinds = [f"{kind} {format_change(math.exp(change))}" for kind, change in drift.controls.items()]
    shown = ", ".join(kinds if len(kinds) > 1 else drift.controls)
    moved = f"machine drift {format_change(math.exp(drift.change))} ({shown}, {plural(drift.cases, 'case')})"
    if not drift.subtracted:
        return f"{moved}, not subtracted from the changes, because that needs {ENOUGH_CASES} cases"
    if not taken_out(drift, options):
        return f"{moved}, which cancels in this metric"
    return f"{moved}, subtracted from the changes" + (", but not from the old and new values" if beside_values else "")


def geomean(comparison: Comparison) -> str:
    """`geomean of time ratios 0.994 [0.989, 0.999] over 47 of 50 rows`"""
    mean, name = comparison.geomean, quantity(comparison.options.metric).name
    of = f"{mean.rows} of {mean.total} rows"
    if mean.ratio is None:
        return f"no geomean of {name} ratios: {of} have a ratio"
    ends = f" [{factor(mean.ci[0])}, {factor(mean.ci[1])}]" if mean.ci else ""
    return f"geomean of {name} ratios {factor(mean.ratio)}{ends} over {of}{', weighted' * mean.weighted}"


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
    seen = {name: {part.get(name) for part in parts} for part in parts[:1] for name in part}
    if all(len(values) == 1 for name, values in seen.items() if name != "provider"):
        seen.pop("provider", None)
    return {name: str(*values) for name, values in seen.items() if len(values) == 1}


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


# ---- rows with a change: numbers and reasons


def number_cells(rows: Sequence[JudgedRow], comparison: Comparison) -> list[dict[str, str]]:
    """The numbers of rows by column, without empty columns."""
    metric = quantity_of(comparison)
    cells = []
    for row in rows:
        old, new = values(row, metric)
        cells.append(
            {
                f"old {metric.unit}": old,
                f"new {metric.unit}": new,
                metric.head: "" if row.ratio is None else format_change(row.ratio),
                INTERVAL: interval(row.ci) if row.ci else "",
                Q: "" if row.q is None else probability(row.q),
            }
        )
    filled = [name for name in cells[0] if any(line[name] for line in cells)]
    return [{name: line[name] for name in filled} for line in cells]


def values(row: JudgedRow, metric: Quantity) -> list[str]:
    """The old and the new value as text; "" for a side without a value."""
    values = [side.value if side else None for side in (row.old, row.new)]
    return ["" if value is None else metric.show(value) for value in values]


def sentence(row: JudgedRow, metric: Quantity) -> str:
    """A row on one line: `slower: time +5.3% [+4.6, +6.1], 31.42 -> 33.10 us, q 0.001; only 2 sessions`."""
    old, new = values(row, metric)
    parts = []
    if row.ratio is not None:
        ends = f" {interval(row.ci)}" if row.ci else ""
        parts.append(f"{metric.name} {format_change(row.ratio)}{ends}{metric.basis}")
    if old or new:
        parts.append(f"{old or 'none'} -> {new or 'none'} {metric.unit}")
    if row.q is not None:
        parts.append(f"q {probability(row.q)}")
    details = "; ".join(filter(None, [", ".join(parts), row.reason]))
    return f"{row.verdict}: {details}" if details else row.verdict.value


def footnotes(rows: Sequence[JudgedRow]) -> dict[str, int]:
    """The reasons that several rows share, each with the number of its footnote, in the order of rows. If there are too many,
    the most frequent ones."""
    counts = Counter(row.reason for row in rows if row.reason)
    shared = {reason for reason, count in counts.most_common(MOST_FOOTNOTES) if count > 1}
    return {reason: number for number, reason in enumerate((each for each in counts if each in shared), start=1)}


# ---- rows without a change: groups


@dataclass(frozen=True)
class Group:
    """Rows of one provider that have the same verdict, and reasons that differ at most in numbers.

    first   the first row of the group
    count   how many rows the group has
    who     the provider
    extent  `all 12 cases`, `2 of 12 cases (bf16 N=1024, 2048)`
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
    members: dict[tuple[Verdict, str, str], list[JudgedRow]] = {}
    for row in rows:
        like = row.verdict, row.key.configuration_name, _NUMBER.sub("0", row.reason)
        members.setdefault(like, []).append(row)
    return [
        Group(group[0], len(group), who, _extent(group, totals[who], common), _why(group))
        for (_, who, _), group in members.items()
    ]


def _why(group: Sequence[JudgedRow]) -> str:
    first = group[0].reason
    return first if all(row.reason == first for row in group) else f"for example {first}"


def _extent(group: Sequence[JudgedRow], total: int, common: Collection[str]) -> str:
    if len(group) == total > 1:
        return f"all {total} cases"
    cases = _cases(group, common)
    how_many = "1 case" if total == 1 else f"{len(group)} of {total} cases"
    return f"{how_many} ({cases})" if cases else how_many


def _cases(group: Sequence[JudgedRow], common: Collection[str]) -> str:
    """`bf16/fp32 N=1024, 2048; fp32 N=4096`: products of values that cover exactly these cases."""
    parts = [with_short_dtype(name_parts(row, {*common, "provider"})) for row in group]
    products: list[dict[str, tuple[str, ...]]] = [{name: (value,) for name, value in part.items()} for part in parts]
    for name in reversed(parts[0]):
        merged: dict[tuple[tuple[str, ...], ...], dict[str, tuple[str, ...]]] = {}
        for product in products:
            others = tuple(values for other, values in product.items() if other != name)
            so_far = merged.setdefault(others, product | {name: ()})
            so_far[name] = tuple(dict.fromkeys((*so_far[name], *product[name])))
        products = list(merged.values())
    return "; ".join(" ".join(_named(name, values) for name, values in product.items()) for product in products)


def _named(name: str, values: Sequence[str]) -> str:
    return "/".join(values) if name in SELF_EXPLAINING else f"{name}={', '.join(values)}"
