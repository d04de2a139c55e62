"""The decision, its origin and its regret in lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kbench.analysis.files import ResultsFile
from kbench.dispatching.evidence import Evidence, Point
from kbench.dispatching.holdout import HOLDOUT_SPLITS, Regret
from kbench.dispatching.python_source import condition
from kbench.dispatching.tree import Branch, Decision, Tree
from kbench.results.row import CONDITION_COLUMNS
from kbench.results.vocabulary import Status
from kbench.text.printable import printable
from kbench.version import __version__


def tree_lines(tree: Tree, general: str) -> Iterator[str]:
    """The tree, a question or a provider on each line. `general` is the provider of sizes outside of bounds."""
    if not isinstance(tree, Branch):
        bounds = " and ".join(f"{low} <= {name} <= {high}" for name, (low, high) in tree.within.items())
        yield f"choose {tree.provider}" + (f" where {bounds}; elsewhere choose {general}" if bounds else "")
        return
    yield f"if {condition(tree.test)}:"
    yield from ("    " + line for line in tree_lines(tree.yes, general))
    yield "otherwise:"
    yield from ("    " + line for line in tree_lines(tree.no, general))


def regret_line(found: Regret, *, held_out: bool) -> str:
    """The mean and the worst regret, and where the worst is."""
    where = f"held-out cases ({HOLDOUT_SPLITS} splits)" if held_out else "measured cases"
    choices = "choices (each case once per split)" if held_out else "cases"
    if found.forbidden:
        return (
            f"regret at {where}: infinite, because in {found.forbidden} of {found.cases} {choices} the chosen provider has no "
            f"time that can be trusted, for example {found.worst.provider} at {_at(found.worst.point)}"
        )
    worst = f"{percent(found.worst.regret)} ({found.worst.provider} at {_at(found.worst.point)})"
    return f"regret at {where}: mean {percent(found.mean)}, worst {worst}"


def percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _at(point: Point) -> str:
    return " ".join(str(value) if name == "dtype" else f"{name}={value}" for name, value in point.items())


def omitted_lines(evidence: Evidence) -> list[str]:
    """A line about the cases in which no provider may be chosen, if there are any."""
    if not evidence.omitted:
        return []
    count, total = len(evidence.omitted), len(evidence.omitted) + len(evidence.points)
    return [
        f"left out: {count} of {total} cases, because no provider has a trusted time there, for example {evidence.omitted[0]}"
    ]


def passed_over_lines(decision: Decision, evidence: Evidence, margin: float) -> list[str]:
    """A line about each provider that is never chosen, lacks a trusted time somewhere, and is faster than the chosen one
    elsewhere by more than the margin: one failed row may be all that speaks against it."""
    chosen = [evidence.providers.index(decision.choose(point)) for point in evidence.points]
    taken = 1 + evidence.measured[np.arange(len(chosen)), chosen]
    lines = []
    for name, gap in evidence.gaps.items():
        longer = taken / (1 + evidence.measured[:, evidence.providers.index(name)]) - 1  # -1 where it may not be chosen
        gains = longer[longer > margin]
        if name in decision.providers or not len(gains):
            continue
        lines.append(
            f"never chosen: {name}, because it has no trusted time in {gap.cases} of {len(chosen)} cases, for example "
            f"{gap.example} ({gap.outcome}). Regret at {len(gains)} of {len(chosen)} cases because of this: mean "
            f"{percent(gains.mean())}, worst {percent(gains.max())}"
        )
    return lines


def header(
    decision: Decision, evidence: Evidence, sources: Sequence[ResultsFile], report: Sequence[str], made_at: str
) -> list[str]:
    """What the emitted files say about their origin and their limits."""
    sizes = [
        f"{name} from {min(values)} to {max(values)}" if min(values) < max(values) else f"{name}={values[0]}"
        for name in evidence.numbers
        for values in [evidence.values(name)]
    ]
    words = [f"{name}: {', '.join(map(str, found))}" for name, found in decision.words.items()]
    fixed = [f"only {name}={value}" for name, value in evidence.fixed.items()]
    lines = [
        f"The provider of {evidence.operator} for a shape. kbench {__version__} made this file at {made_at}; do not edit it.",
        *(f"From {line}" for line in map(_origin, sources)),
        f"Measured: {'; '.join([*sizes, *words, *fixed])}.",
        *(f"{line[0].upper()}{line[1:]}." for line in report),
        *_unmeasured_lines(decision),
    ]
    return [printable(line) for line in lines]


def _unmeasured_lines(decision: Decision) -> list[str]:
    """What is chosen for words and sizes that were not measured."""
    if decision.providers == [decision.general]:
        return [f"{decision.general} has a trusted time in every measured case. `choose` always returns it."]
    return [
        f"{decision.general} has a trusted time in every measured case. "
        "It is also returned if the dtype, or another argument that is text, has a value that was not measured.",
        "Sizes that were not measured follow the thresholds, which lie between measured sizes. Where a size is outside the "
        f"bounds of the chosen provider (low <= N <= high), `choose` returns {decision.general}.",
    ]


def _origin(source: ResultsFile) -> str:
    """`results/softmax.csv: NVIDIA H200, driver 580, torch 2.11.0, timer do_bench, cache cold, 2026-11-22`"""
    timed = [row for row in source.rows if row.status is Status.OK]
    driver, versions = source.environment.driver, source.environment.packages
    dates = sorted({row.started_at[:10] for row in timed} - {""})
    how = {name: sorted({getattr(row, name) for row in timed} - {""}) for name in CONDITION_COLUMNS}
    parts = [
        *how["device"],
        f"driver {driver}" if driver else "",
        *(f"{name} {versions[name]}" for name in ("torch", "triton") if versions.get(name)),
        *(f"{name} {'/'.join(how[name])}" for name in ("timer", "cache") if how[name]),
        " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "",
    ]
    return f"{source.path}: {', '.join(filter(None, parts))}"
