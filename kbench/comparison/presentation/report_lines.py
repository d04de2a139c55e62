"""The lines of a report around its rows: title, conditions, drift, geometric mean, counts and next steps."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kbench.analysis.metrics import COMPARED
from kbench.analysis.noise import format_share
from kbench.comparison.drift import ENOUGH_CASES, Drift
from kbench.comparison.environment_differences import Weight
from kbench.comparison.join import Side
from kbench.comparison.model import Comparison, Geomean
from kbench.comparison.presentation import row_names
from kbench.comparison.presentation.wording import Quantity, factor, format_change, quantity
from kbench.comparison.verdict import DRIFT_REASON, TOO_NOISY_REASON, Verdict
from kbench.results.row import CONDITION_COLUMNS

WEIGHTS = {
    Weight.REFUSE: "forbids the comparison",
    Weight.WARN: "may explain a change",
    Weight.VARIED: "varied on purpose",
}


def title(comparison: Comparison) -> str:
    """`new.csv against base.csv`"""
    return f"{', '.join(comparison.contenders)} against {comparison.baseline}"


def headline(comparison: Comparison) -> str:
    """The outcome on one line: the result of the gate, if there is a gate, and the counts."""
    if comparison.nothing_common:
        return comparison.nothing_common
    return "; ".join(filter(None, [comparison.gate.judge(comparison).text, summary(comparison)]))


def quantity_of(comparison: Comparison) -> Quantity:
    """What is compared. Its `head` and `basis` mark changes that are not the quotient of the two values beside them: the
    machine's drift was removed."""
    metric = comparison.rules.metric
    if any(taken_out(part, metric) for drift in comparison.drifts.values() for part in drift.parts.values()):
        return quantity(metric, " - drift", " without drift")
    return quantity(metric)


def facts(comparison: Comparison, common: dict[str, str]) -> list[tuple[str, str]]:
    """What was compared and under which conditions, as names and values, without unknown values.

    `common` holds the parts of names that all rows share.
    """
    metric, rules = quantity_of(comparison), comparison.rules
    direction = "slower" if rules.compared.lower_is_better else "faster"
    provider = {"provider": f"provider {common['provider']}"} if "provider" in common else {}
    found = [
        ("conditions", ", ".join(_conditions(comparison))),
        ("sessions", _sessions(comparison)),
        ("compared", f"{metric.with_unit}{_pooled(comparison)}, more is {direction}; margin {rules.margin * 100:g}%"),
        ("every row", row_names.format_parts(common | provider)),
    ]
    return [(name, value) for name, value in found if value]


def _sides(comparison: Comparison) -> Iterator[tuple[str, Side]]:
    for row in comparison.rows:
        if row.old:
            yield comparison.baseline, row.old
        if row.new:
            yield row.contender, row.new


def _conditions(comparison: Comparison) -> Iterator[str]:
    """The device, timer and cache; `old -> new` where those of the baseline and the contenders differ."""
    before: dict[str, set[str]] = {name: set() for name in CONDITION_COLUMNS}
    after: dict[str, set[str]] = {name: set() for name in before}
    for label, side in _sides(comparison):
        for name, values in (before if label == comparison.baseline else after).items():
            values.update(side.conditions.get(name, ()))
    for name in before:
        old, new = ("/".join(sorted(seen[name])) for seen in (before, after))
        value = old if old == new or not new else new if not old else f"{old} -> {new}"
        if value:
            yield value if name == "device" else f"{name} {value}"


def _pooled(comparison: Comparison) -> str:
    """How a value follows from several sessions, which `kbench show` pools in another way."""
    several = any(len(side.readings) > 1 for _, side in _sides(comparison))
    return " (geomean of sessions)" if several else ""


def _sessions(comparison: Comparison) -> str:
    most: dict[str, int] = {}
    for label, side in _sides(comparison):
        most[label] = max(most.get(label, 0), side.sessions)
    if len(set(most.values())) <= 1:
        return "".join(f"{count} each" for count in set(most.values()))
    return ", ".join(f"{count} of {label}" for label, count in most.items())


def drifts(comparison: Comparison, *, beside_values: bool = True) -> Iterator[str]:
    """How the machine changed between the baseline and each contender, and the noise floor.

    `beside_values` says whether the reader sees the two values beside each change.
    """
    for drift in comparison.drifts.values():
        noise = f"noise floor {format_share(drift.noise)} (repeat control)" if drift.noise else ""
        for device, part in drift.parts.items():
            moved = _moved(part, comparison.rules.metric, beside_values)
            where = f"{device}: " if device else ""
            yield where + "; ".join(filter(None, [moved, noise]))


def taken_out(drift: Drift, metric: str) -> bool:
    """Whether the machine's drift was removed from a contender's rows."""
    return drift.subtracted and COMPARED[metric].drifts


def _moved(drift: Drift, metric: str, beside_values: bool) -> str:
    if drift.change is None:
        return "machine drift unknown: the files have no copy control in common"
    kinds = [f"{kind} {format_change(math.exp(change))}" for kind, change in drift.controls.items()]
    shown = ", ".join(kinds if len(kinds) > 1 else drift.controls)
    cases = "1 case" if drift.cases == 1 else f"{drift.cases} cases"
    moved = f"machine drift {format_change(math.exp(drift.change))} ({shown}, {cases})"
    if not drift.subtracted:
        return f"{moved}, not subtracted from the changes, because that needs {ENOUGH_CASES} cases"
    if not taken_out(drift, metric):
        return f"{moved}, which cancels in this metric"
    return f"{moved}, subtracted from the changes" + (", but not from the old and new values" if beside_values else "")


def geomeans(comparison: Comparison) -> Iterator[str]:
    """`geomean of time ratios 0.994 [0.989, 0.999] over 47 of 50 rows`, for every contender."""
    name = quantity(comparison.rules.metric).name
    for geomean in sorted(comparison.geomeans, key=lambda geomean: comparison.contenders.index(geomean.contender)):
        yield _mean(geomean, name)


def _mean(geomean: Geomean, name: str) -> str:
    of = f"{geomean.rows} of {geomean.total} rows"
    if geomean.ratio is None:
        return f"no geomean of {name} ratios: {of} have a ratio"
    ends = f" [{factor(geomean.ci[0])}, {factor(geomean.ci[1])}]" if geomean.ci else ""
    return f"geomean of {name} ratios {factor(geomean.ratio)}{ends} over {of}{', weighted' * geomean.weighted}"


def summary(comparison: Comparison) -> str:
    """One line: `1 slower, 46 same, 3 unclear`."""
    return ", ".join(f"{count} {verdict}" for verdict, count in comparison.counts.items()) or "no rows"


def next_steps(comparison: Comparison, unclear_advice: str = "") -> Iterator[str]:
    """What would settle or explain rows. `unclear_advice` is the line about unclear rows; empty names the option `--append`."""
    unclear = [
        row
        for row in comparison.rows
        if row.verdict is Verdict.UNCLEAR
        and not row.reason.startswith(TOO_NOISY_REASON)  # their reason says what would help
    ]
    if unclear and unclear_advice:
        yield unclear_advice
    elif unclear:
        sides = [side for row in unclear for side in (row.old, row.new) if side]
        few = max(side.sessions for side in sides) == 1
        hint = "" if few else " (where sessions help, the reason of a row says about how many)"
        drifted = [row.reason.startswith(DRIFT_REASON) for row in unclear]
        if not all(drifted):
            yield (
                "unclear rows may need more sessions in both files: repeat the command that measured each of them, with "
                f"--append --sessions {2 if few else 'N'}{hint}"
            )
        if any(drifted):
            yield (
                "where the drift of the machine may explain a change, measure both sides in turn: kbench ab does so for "
                "two git revisions"
            )
    failed = {row.new.status.value for row in comparison.rows if row.verdict is Verdict.FAILED and row.new}
    if failed:
        yield f"to understand failed rows: {', '.join(f'kbench explain {status}' for status in sorted(failed))}"
