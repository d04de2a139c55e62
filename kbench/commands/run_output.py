"""What `kbench run`, `check` and `exec` print: the plan before a run, and the results after it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbench.config import builtin
from kbench.errors import ResultsError, UsageError
from kbench.text import terminal
from kbench.text.numbers import duration
from kbench.text.words import list_words, plural

if TYPE_CHECKING:
    from kbench.config.plan import Plan
    from kbench.execute.run import RunResult

CASES_SHOWN = 30
"""On a terminal, the summary of a run shows this many cases. `kbench show` prints all of them."""

ONLY_CHECKED = "checked in Triton's interpreter, which is slow, and not timed"
"""What becomes of a Triton kernel without an accelerator."""


def announce(plan: Plan, places: Sequence[str]) -> None:
    """Say what is measured or checked, and where."""
    if plan.path.parent == builtin.folder():
        terminal.note(f"the built-in config {plan.path.stem}: {plan.path}")
    side_by_side = f": {list_words(places)}" if places else ""
    terminal.note(f"{plan.operator} on {plan.catalog.device.name}{side_by_side}")
    if plan.interpreted:
        terminal.note(f"{', '.join(plan.interpreted)}: {ONLY_CHECKED}")


def print_plan(plan: Plan, places: Sequence[str], *, spread: bool) -> None:
    """Print the cases, each with its expected device: devices take turns, as cases take about the same time."""
    columns = {name: [str(case.axes[name]) for case in plan.cases] for name in plan.info.columns}
    columns["dtype"] = [case.dtype for case in plan.cases]
    if plan.models:
        columns["model"] = [plan.models.get(case, "").replace(";", ", ") for case in plan.cases]
    if plan.weights:
        columns["weight"] = [f"{plan.weights[case]:g}" for case in plan.cases]
    if plan.info.inputs:  # a script declares no tensors
        columns["MB per call"] = [f"{plan.info.tensor_bytes(case) / 1e6:.1f}" for case in plan.cases]
        columns["MB needed"] = [f"{plan.info.needed_bytes(case) / 1e6:.1f}" for case in plan.cases]
    if places:
        columns["expected on"] = [places[number % len(places)] for number in range(len(plan.cases))]
    rows = list(zip(*columns.values(), strict=True))
    terminal.print_table(list(columns), rows)
    print()
    if large := plan.too_large():
        has, labels = (plan.catalog.memory_bytes or 0) / 1e9, list_words([case.label for case in large], 3)
        those = f"{len(large):,} of {plural(len(plan.cases), 'case')} {'needs' if len(large) == 1 else 'need'}"
        too_much = f"{those} more memory than the device has ({has:.1f} GB)"
        terminal.print_paragraph(f"{too_much}, and will probably be oom: {labels}")
        print()
    for configuration in plan.configurations:
        name = configuration.name
        suffix = " (baseline)" if name == plan.baseline else ""
        outlook = f"will be {ONLY_CHECKED}" if name in plan.interpreted else "will run"
        if name in plan.unavailable:
            outlook = f"cannot run: {plan.unavailable[name]}"
        print(f"{name}{suffix}: {outlook}")
    measure = plan.measure
    expected = duration(plan.estimate_s(len(places) or 1, spread=spread))
    providers = {configuration.provider for configuration in plan.runnable}
    counts = (
        plural(len(plan.cases), "case"),
        plural(len(plan.runnable), "provider" if len(providers) == len(plan.runnable) else "configuration"),
        ("" if measure.precision is None else "at least ") + plural(measure.rounds, "round"),
        plural(measure.sessions, "session"),
    )
    size = " x ".join(counts)
    without = "compilation and Triton's interpreter" if plan.interpreted else "compilation"
    where = f" on {plural(len(places), 'device')}" if places else ""
    print(f"{size}{where}: about {expected}, {without} not included")


def print_results(result: RunResult) -> None:
    """Print the summary of a run or a program, what was measured, and where it is."""
    from kbench.analysis import analyse
    from kbench.summary import print_summary
    from kbench.summary.sentences import cases_of, counts, precision_reached

    rows, plan = result.rows, result.plan
    analysis = analyse(rows, result.baseline)
    print_summary(analysis, most_cases=CASES_SHOWN, more=f"kbench show {shlex.quote(str(result.csv))}")
    if plan and result.interrupted:
        print(f"Interrupted after {plan.progress(cases_of(rows))}.")
    if plan and plan.measure.precision is not None:
        terminal.print_paragraph(precision_reached(rows, plan.measure.precision))
    print(f"{counts(rows) or 'no rows'}: {result.csv}")
    if result.moved:
        first, *further = result.moved
        print(f"the earlier results were moved to {' and '.join([str(first), *(old.name for old in further)])}")


def draw(result: RunResult) -> None:
    """Draw the results, and print where the pictures are."""
    from kbench import plotting

    if not any(row.ms is not None for row in result.rows):
        return
    try:
        for picture in plotting.write_pictures([result.csv]):
            print(f"plot: {picture}")
    except (UsageError, ResultsError) as error:
        terminal.warn(f"no plot: {error}")
