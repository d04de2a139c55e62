"""`kbench check`: provider x input, right or wrong."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from kbench import summary
from kbench.config.load import Config, Sweep, plugin_failures
from kbench.execute import progress
from kbench.execute.executors.supervisor import Bench
from kbench.execute.plan import plan as make_plan
from kbench.execute.plan import smallest, tensor_bytes
from kbench.execute.worker.starting import Plugins
from kbench.results.row import Case, Status
from kbench.text import terminal
from kbench.text.printable import reason

VARIES = "*"
"""Marks a right output that differs in some bits between two calls."""

Cells = dict[tuple[str, str], list[dict[str, Any]]]


def check(config: Config, *, every_case: bool) -> int:
    """Run every provider on the operator's edge inputs and print one table per dtype. Returns the exit code."""
    with Bench(Plugins(config.plugins), note=terminal.note) as bench:
        catalog = bench.start()
        plan = make_plan(config.resolve(catalog), catalog)
        for failure in plugin_failures(catalog):
            terminal.warn(failure)
        cases = plan.sweep.cases if every_case else extremes(plan.sweep)
        tasks = [task for task in plan.tasks if task.session == 0 and task.case in cases]
        edges = ["random", *catalog["operators"][plan.sweep.operator]["edges"]]
        if tasks and plan.runnable:
            bench.attempt(smallest(tasks))
        found: dict[str, Cells] = {}
        with progress.listener(tasks) as display:
            for task in tasks:
                display.begin(task)
                cells = found.setdefault(task.case.dtype, {})
                for cell in bench.check(task, display):
                    told = {"case": task.case.label, "reason": reason(cell["reason"])}
                    cells.setdefault((cell["edge"], cell["curve"]), []).append(cell | told)
                display.advance(task)
    for dtype, cells in found.items():
        _print(plan.sweep, dtype, cells, edges, plan.unavailable)
    bad = [c for cells in found.values() for group in cells.values() for c in group if Status(c["status"]).failed]
    for line in _explain(bad):
        print(line)
    for curve, why in plan.unavailable.items():
        print(f"{curve}: unavailable: {why}")
    return 1 if bad else 0


def _explain(bad: Sequence[dict[str, Any]]) -> list[str]:
    """One line per provider and reason, with the inputs and the number of cases it holds for."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for cell in bad:
        groups.setdefault((cell["curve"], cell["status"], cell["reason"]), []).append(cell)
    lines = []
    for (curve, status, why), cells in groups.items():
        edges = list(dict.fromkeys(cell["edge"] for cell in cells))
        cases = list(dict.fromkeys(cell["case"] for cell in cells))
        where = cases[0] if len(cases) == 1 else f"{len(cases)} cases"
        lines.append(f"{curve}: {status} on {', '.join(edges)} ({where}): {why}")
    return lines


def extremes(sweep: Sweep) -> list[Case]:
    """The smallest and the largest case of every dtype: where kernels change their minds."""
    chosen: list[Case] = []
    for dtype in dict.fromkeys(case.dtype for case in sweep.cases):
        cases = sorted((case for case in sweep.cases if case.dtype == dtype), key=tensor_bytes)
        chosen += [cases[0]] if len(cases) == 1 else [cases[0], cases[-1]]
    return chosen


def _print(sweep: Sweep, dtype: str, cells: Cells, edges: Sequence[str], unavailable: Container[str]) -> None:
    curves = [curve.name for curve in sweep.curves if curve.name not in unavailable]
    rows = [[edge, *(_word(cells.get((edge, curve), [])) for curve in curves)] for edge in edges]
    print()
    print(f"{sweep.operator} {dtype}; each cell: ok and the largest error in ulp, or what went wrong")
    terminal.print_table(("input", *curves), rows)
    if any(cell.endswith(VARIES) for row in rows for cell in row):
        print(f"{VARIES} two calls on the same input are not bit-identical")
    print()


def _word(cells: Sequence[dict[str, Any]]) -> str:
    """The worst of a provider's outcomes on one input, over the cases checked."""
    if not cells:
        return "-"
    order = list(Status)
    worst = max(cells, key=lambda cell: (Status(cell["status"]).failed, order.index(Status(cell["status"]))))
    if worst["status"] == Status.CHECKED.value:
        varies = any(cell.get("deterministic") is False for cell in cells)
        return f"ok {summary.ulps(max(cell['max_ulp'] or 0.0 for cell in cells))}" + f" {VARIES}" * varies
    return "declined" if worst["status"] == Status.UNSUPPORTED.value else str(worst["status"])
