"""`kbench check`: runs every provider on every edge input, and prints which results are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kbench.commands.options import ConfigFile, OnlyProviders, Plugins, Profile, Sets
from kbench.errors import ExitStatus
from kbench.text import terminal
from kbench.text.table import NO_VALUE

if TYPE_CHECKING:
    from kbench.config.plan import Plan
    from kbench.results.row import Row

VARIES = "*"
"""Marks a right output that differs in some bits between two calls."""

DECLINED = {"unsupported": "declined"}
"""How the table calls a status, where it has another word for it."""


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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the answer as JSON (see kbench schema check).")
    ] = False,
) -> ExitStatus:
    """Check every provider on edge inputs, without timing. CONFIG may also be a problem of another benchmark.

    Edge inputs such as -inf, NaN, large offsets and strided rows often break kernels. Each operator can list its own edge
    inputs.

    Exit code: 0 no provider gave a wrong result or failed; 1 a provider gave a wrong result or failed; 2 bad input; 3 nothing
    could be checked, or the reference fails in a case; 130 interrupted.
    """
    from kbench import interrupts
    from kbench.commands.run_output import announce
    from kbench.config.load import load_config
    from kbench.config.plan import find_extremes
    from kbench.execute.prepare import prepare, start_worker
    from kbench.judging.answer import CheckAnswer, check_provider, exit_status
    from kbench.judging.checks import check_cases
    from kbench.judging.judge import command_again

    loaded = load_config(config, sets=sets or (), only=only or (), profile=profile, plugins=plugin or ())
    with interrupts.once(), start_worker(loaded) as worker:
        plan = prepare(loaded, worker)
        announce(plan, ())
        cases = plan.cases if every_case else find_extremes(plan)
        all_tasks = [task for task in plan.tasks if task.session == 0]
        tasks = [task for task in all_tasks if task.case in cases]
        checks = check_cases(tasks, worker.check)
    reproduce = partial(command_again, str(config), plugin or (), plan.measure.seed)
    names = [configuration.name for configuration in plan.configurations]
    left_out_cases = checks.left_out_cases
    providers = [check_provider(name, checks.of(name), reproduce, left_out_cases=left_out_cases) for name in names]
    status = exit_status(providers, interrupted=checks.interrupted)
    if as_json:
        answer = CheckAnswer(
            operator=plan.operator,
            device=plan.catalog.device.name,
            seed=plan.measure.seed,
            passed=status is ExitStatus.OK,
            interrupted=checks.interrupted,
            providers=providers,
            exit_status=status,
        )
        terminal.write_text(answer.model_dump_json(by_alias=True, indent=1) + "\n")
        return status
    print_checks(checks.rows, plan)
    for provider in providers:
        if provider.failures:
            print(f"repeat: {provider.failures[0].reproduce}")
    if checks.interrupted:
        print(f"Interrupted after {len(tasks) - left_out_cases} of {len(tasks)} cases.")
    elif left_out_cases:
        print(f"left out: {left_out_cases} of {len(tasks)} cases, because the reference fails there")
    if len(tasks) < len(all_tasks):
        print(f"not checked: {len(all_tasks) - len(tasks)} of {len(all_tasks)} cases; --all checks them")
    return status


def print_checks(rows: Sequence[Row], plan: Plan) -> None:
    """Print one table per dtype, scalars, choices and mode, and below them what is not right."""
    from kbench.config.plan import describe_kind

    rows = [row for row in rows if row.configuration_name not in plan.unavailable]
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(describe_kind(row.case, plan), []).append(row)
    names = [configuration.name for configuration in plan.configurations if configuration.name not in plan.unavailable]
    for kind, members in kinds.items():
        _print_table(members, names, kind, plan)
    print()
    for line in [*_explain(kinds), *_all_wrong(rows, plan)]:
        print(line)
    for name, why in plan.unavailable.items():
        print(f"{name}: unavailable: {why}")


def _print_table(rows: Sequence[Row], names: Sequence[str], kind: str, plan: Plan) -> None:
    """A line per edge input and a column per configuration. Inputs that the operator has not in this dtype have no line."""
    cells: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        cells.setdefault(row.edge, {}).setdefault(row.configuration_name, []).append(row)
    edges_tried = {row.edge for row in rows if not row.not_tried}
    lines = [
        [edge, *(_word(members.get(name, [])) for name in names)]
        for edge, members in cells.items()
        # after two crashes a provider has rows of all inputs, also of those that no other provider was given
        if edge in edges_tried or len(members) == len(names)
    ]
    print()
    # gradients have an error also where the operator checks its outputs itself
    judges_itself = plan.info.judged and all(row.max_ulp is None for row in rows)
    ok = "ok (the operator has a check of its own)" if judges_itself else "ok and the largest error in ulp"
    print(f"{plan.operator} {kind}; each cell shows {ok}, declined, or what went wrong")
    terminal.print_table(("input", *names), lines)
    if any(cell.endswith(VARIES) for line in lines for cell in line):
        print(f"{VARIES} the outputs of two calls on the same input are not bit-identical")
    if any(cell == NO_VALUE for line in lines for cell in line):
        print(f"{NO_VALUE} not tried: the provider declined or failed on random inputs")


def _word(cell: Sequence[Row]) -> str:
    """The worst outcome of a configuration on one input, over the checked cases."""
    from kbench.results.vocabulary import Status
    from kbench.text.numbers import ulps

    if not cell:
        return NO_VALUE
    order = list(Status)
    tried = [row for row in cell if not row.not_tried]
    if not tried:
        return "not tried"
    worst = max(tried, key=lambda row: (row.status.failed, order.index(row.status)))
    if worst.status is Status.CHECKED:
        varies = any(row.deterministic is False for row in cell)
        error = max((row.max_ulp for row in cell if row.max_ulp is not None), default=None)
        return "ok" + (f" {ulps(error)}" if error is not None else "") + f" {VARIES}" * varies
    return DECLINED.get(worst.status.value, worst.status.value)


def _explain(kinds: Mapping[str, Sequence[Row]]) -> list[str]:
    """Lines for the results that are not right. A failure has a line per configuration and reason: if an input fails in several
    cases of a kind, the reason is that of the first. A provider that declined has a line per reason: its configurations decline
    alike."""
    first: dict[tuple[str, ...], str] = {}
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for kind, row in ((kind, row) for kind, rows in kinds.items() for row in rows if row.reason):
        name = row.configuration_name if row.status.failed else row.provider
        word = DECLINED.get(row.status.value, row.status.value)
        reason = first.setdefault((kind, name, word, row.edge), row.reason)
        groups.setdefault((name, word, reason), []).append(row)
    edges_tried = {row.edge for rows in kinds.values() for row in rows if not row.not_tried}
    lines = []
    for (name, word, why), group in sorted(groups.items(), key=lambda group: not group[1][0].status.failed):
        # a failure has the shapes of its inputs that are not those of the case
        edges: dict[str, set[str]] = {}
        for row in group:
            edges.setdefault(row.edge, set()).update({row.shapes} - {""} if row.status.failed else set())
        inputs = [f"{edge} ({' or '.join(sorted(shapes))})" if shapes else edge for edge, shapes in edges.items()]
        inputs = ["all inputs"] if len(edges) > 1 and edges_tried <= edges.keys() else inputs
        cases = list(dict.fromkeys(row.case.label for row in group))
        where = cases[0] if len(cases) == 1 else f"{len(cases)} cases"
        where += f", first {cases[0]}" if len({row.reason for row in group}) > 1 else ""
        lines.append(f"{name}: {word} on {', '.join(inputs)} ({where}): {why}")
    return lines


def _all_wrong(rows: Sequence[Row], plan: Plan) -> list[str]:
    """A line for the inputs on which all providers are wrong, the baseline among them."""
    from kbench.results.vocabulary import Status

    tried: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if not row.status.declined:
            tried.setdefault((row.case.label, row.edge), []).append(row)
    all_wrong = [
        place
        for place, members in tried.items()
        if {plan.baseline} < {row.configuration_name for row in members}
        and all(row.status is Status.WRONG for row in members)
    ]
    if not all_wrong:
        return []
    cases, edges = (list(dict.fromkeys(words)) for words in zip(*all_wrong, strict=True))
    where = cases[0] if len(cases) == 1 else f"{len(cases)} cases"
    advice = "look at the reference, the tolerance or the check= of the operator"
    return [f"all providers are wrong on {', '.join(edges)} ({where}): {advice}"]
