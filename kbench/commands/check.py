"""`kbench check`: runs every provider on every edge input, and prints which results are right."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from kbench.commands.options import ConfigFile, KeepTrying, OnlyProviders, Plugins, Profile, Sets
from kbench.errors import ExitStatus
from kbench.text import terminal

if TYPE_CHECKING:
    from kbench.config.load import Config
    from kbench.config.resolve import Sweep
    from kbench.protocol import EdgeResult

VARIES = "*"
"""Marks a right output that differs in some bits between two calls."""

EMPTY_CELL = "-"
"""The cell of a configuration that was not tried on an input."""


CheckedCells = dict[tuple[str, str], list["Checked"]]
"""By edge input and configuration."""


@dataclass(frozen=True)
class Checked:
    """The result of a configuration of a provider on one edge input of one case. `reason` is one printable line."""

    provider: str
    configuration_name: str
    case: str
    result: EdgeResult
    reason: str


def check(
    config: ConfigFile,
    sets: Sets = None,
    only: OnlyProviders = None,
    profile: Profile = None,
    plugin: Plugins = None,
    every_case: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Check the edge inputs at the sizes of every case. Default: check only the smallest and the largest case, "
            "separately for each combination of dtype, mode and the operator's other settings.",
        ),
    ] = False,
    keep_trying: KeepTrying = False,
) -> ExitStatus:
    """Check every provider on edge inputs, without timing.

    Edge inputs such as -inf, NaN, large offsets and strided rows often break kernels. Each operator can list its own edge
    inputs.

    Exit code: 0 no provider gave a wrong result or failed; 1 a provider gave a wrong result or failed; 2 bad input; 3 nothing
    could be checked; 130 interrupted.
    """
    from kbench import interrupts
    from kbench.config.load import load_config

    found = CheckedCases()
    with interrupts.once():
        try:
            loaded = load_config(config, sets=sets or (), only=only or (), profile=profile, plugins=plugin or ())
            _check(loaded, found, every_case=every_case, keep_trying=keep_trying)
        except KeyboardInterrupt:
            if not found.complete:
                terminal.note("interrupted before the first case was checked")
                return ExitStatus.INTERRUPTED
            _report(found)
            print(f"Interrupted after {found.complete} of {found.wanted} cases.")
            return ExitStatus.INTERRUPTED
        return _report(found)


@dataclass
class CheckedCases:
    """What has been checked so far: the cells of the cases that are complete.

    sweep        the sweep of the config
    unavailable  why configurations cannot run on this machine, by name
    edges        the names of the edge inputs of each table, in order
    tables       by what the cases of a table have in common: dtype, choice and mode
    complete     how many cases are checked
    wanted       how many cases there are
    """

    sweep: Sweep | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)
    edges: dict[str, Sequence[str]] = field(default_factory=dict)
    tables: dict[str, CheckedCells] = field(default_factory=dict)
    complete: int = 0
    wanted: int = 0

    def add(self, kind: str, edges: Sequence[str], checked: Sequence[Checked]) -> None:
        """The results of a case."""
        self.edges[kind] = edges
        table = self.tables.setdefault(kind, {})
        for one in checked:
            table.setdefault((one.result.edge, one.configuration_name), []).append(one)
        self.complete += 1


def _check(config: Config, found: CheckedCases, *, every_case: bool, keep_trying: bool) -> None:
    """Run every provider on the operator's edge inputs. Fills `found`, case by case."""
    from kbench.config.load import plugin_failures
    from kbench.execute import progress
    from kbench.execute.plan import describe_kind, find_extremes, make_plan
    from kbench.execute.prepare import try_operator
    from kbench.execute.supervisor import WorkerSupervisor
    from kbench.protocol import RANDOM, CatalogRequest
    from kbench.text.printable import safe_reason

    with WorkerSupervisor(CatalogRequest(config.plugins), note=terminal.note) as supervisor:
        catalog = supervisor.start()
        plan = make_plan(config.resolve(catalog), catalog, keep_trying=keep_trying)
        for failure in plugin_failures(catalog):
            terminal.warn(failure)
        cases = plan.sweep.cases if every_case else find_extremes(plan.sweep)
        tasks = [task for task in plan.tasks if task.session == 0 and task.case in cases]
        found.sweep, found.unavailable, found.wanted = plan.sweep, plan.unavailable, len(tasks)
        if tasks and plan.runnable:
            try_operator(supervisor.try_operator, tasks, plan.sweep)
        edges = catalog.operators[plan.sweep.operator].edges
        with progress.make_progress(tasks) as display:
            for task in tasks:
                display.begin(task)
                checked = [
                    Checked(
                        configuration.provider, configuration.name, task.case.label, result, safe_reason(result.reason)
                    )
                    for configuration, result in supervisor.check(task, display)
                ]
                failed: dict[str, str] = {}  # the first failure of each configuration
                for one in checked:
                    if one.result.status.failed:
                        failed.setdefault(one.configuration_name, one.result.status.value)
                words = ", ".join(f"{name} {status}" for name, status in failed.items())
                found.add(describe_kind(task.case, plan.sweep), [RANDOM, *edges[task.case.mode]], checked)
                display.advance(task, f"checked; {words}" if failed else "checked")


def _report(found: CheckedCases) -> ExitStatus:
    """Print one table per dtype, choice and mode, and below them what is not right."""
    from kbench.results.vocabulary import Status

    assert found.sweep
    for kind, table in found.tables.items():
        _print(found.sweep, kind, table, found.edges[kind], found.unavailable)
    every = [one for table in found.tables.values() for cell in table.values() for one in cell]
    for line in _explain([one for one in every if one.configuration_name not in found.unavailable]):
        print(line)
    for name, why in found.unavailable.items():
        print(f"{name}: unavailable: {why}")
    if names := sorted({one.configuration_name for one in every if one.result.not_tried}):
        terminal.note(f"to try {', '.join(names)} on every input, run again with --keep-trying")
    if any(one.result.status.failed for one in every):
        return ExitStatus.FAILED
    return ExitStatus.OK if any(one.result.status is Status.CHECKED for one in every) else ExitStatus.NOTHING


def _explain(checked: Sequence[Checked]) -> list[str]:
    """Lines for the results that are not right, with the inputs and the cases that have them. A failure has a line per
    configuration and reason. A provider that declined has a line per reason: its configurations decline alike."""
    groups: dict[tuple[str, str, str], list[Checked]] = {}
    for one in checked:
        status = one.result.status
        if one.reason:
            name = one.configuration_name if status.failed else one.provider
            groups.setdefault((name, _OUTCOMES.get(status.value, status.value), one.reason), []).append(one)
    lines = []
    for (name, word, why), group in sorted(groups.items(), key=lambda group: not group[1][0].result.status.failed):
        edges: dict[str, set[str]] = {}  # a failure has the shapes of its inputs that are not those of the case
        for one in group:
            shapes = {one.result.shapes} - {""} if one.result.status.failed else set()
            edges.setdefault(one.result.edge, set()).update(shapes)
        inputs = [f"{edge} ({' or '.join(sorted(shapes))})" if shapes else edge for edge, shapes in edges.items()]
        cases = list(dict.fromkeys(one.case for one in group))
        where = cases[0] if len(cases) == 1 else f"{len(cases)} cases"
        lines.append(f"{name}: {word} on {', '.join(inputs)} ({where}): {why}")
    return lines


_OUTCOMES = {"unsupported": "declined"}
"""How the table calls a status, where it has another word for it."""


def _print(sweep: Sweep, kind: str, table: CheckedCells, edges: Sequence[str], unavailable: Container[str]) -> None:
    names = [one.name for one in sweep.configurations if one.name not in unavailable]
    tried = {edge for edge, _ in table}  # an operator may have no such input in this dtype
    rows = [[edge, *(_word(table.get((edge, name), [])) for name in names)] for edge in edges if edge in tried]
    print()
    known = any(one.result.max_ulp is not None for cell in table.values() for one in cell)
    own = sweep.info.judged and not known  # gradients have an error also where the operator checks its outputs itself
    ok = "ok (the operator has a check of its own)" if own else "ok and the largest error in ulp"
    print(f"{sweep.operator} {kind}; each cell shows {ok}, declined, or what went wrong")
    terminal.print_table(("input", *names), rows)
    if any(cell.endswith(VARIES) for row in rows for cell in row):
        print(f"{VARIES} the outputs of two calls on the same input are not bit-identical")
    if any(cell == EMPTY_CELL for row in rows for cell in row):
        print(f"{EMPTY_CELL} not tried: the provider declined or failed on random inputs")
    print()


def _word(cell: Sequence[Checked]) -> str:
    """The worst outcome of a configuration on one input, over the checked cases."""
    from kbench import summary
    from kbench.results.vocabulary import Status

    if not cell:
        return EMPTY_CELL
    order = list(Status)
    results = [one.result for one in cell]
    tried = [result for result in results if not result.not_tried]
    if not tried:
        return "not tried"
    worst = max(tried, key=lambda result: (result.status.failed, order.index(result.status)))
    if worst.status is Status.CHECKED:
        varies = any(result.deterministic is False for result in results)
        error = max((result.max_ulp for result in results if result.max_ulp is not None), default=None)
        return "ok" + (f" {summary.ulps(error)}" if error is not None else "") + f" {VARIES}" * varies
    return _OUTCOMES.get(worst.status.value, worst.status.value)
