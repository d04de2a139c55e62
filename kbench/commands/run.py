"""`kbench run`."""

from __future__ import annotations

from pathlib import Path

from kbench import summary, terminal
from kbench.config import Config
from kbench.execute.plan import Plan, tensor_bytes
from kbench.execute.run import Outcome, execute, prepare


def run(config: Config, out: Path, *, dry_run: bool, plots: bool) -> int:
    """Measure and report. Returns the exit code."""
    notes = terminal.console(stderr=True)
    with prepare(config, note=lambda line: notes.print(line, markup=False)) as prepared:
        sweep = prepared.plan.sweep
        notes.print(f"{sweep.operator} on {prepared.plan.device}", markup=False)
        if sweep.profile_automatic:
            notes.print(f"no accelerator here: profile {sweep.profile} of {sweep.path} applies", markup=False)
        if dry_run:
            _print_plan(prepared.plan)
            return 0
        outcome = execute(prepared, out)
    _report(outcome)
    if plots:
        _draw(outcome)
    return outcome.exit_code


def _print_plan(plan: Plan) -> None:
    sweep = plan.sweep
    rows = [
        [
            *(str(case.axes[name]) for name in sweep.axes),
            case.dtype,
            _mb(tensor_bytes(case)),
            _mb(4 * tensor_bytes(case)),
        ]
        for case in sweep.cases
    ]
    terminal.print_table(
        (*sweep.axes, "dtype", "MB a tensor", "MB at least"), rows, numeric=("MB a tensor", "MB at least")
    )
    print()
    for curve in sweep.curves:
        reason = curve.error or plan.unavailable.get(curve.name)
        mark = " (baseline)" if curve.name == sweep.baseline else ""
        print(f"{curve.name}{mark}: {'cannot run: ' + reason if reason else 'will run'}")
    measure = sweep.measure
    print(
        f"{len(sweep.cases)} cases x {len(plan.runnable)} providers x {measure.rounds} rounds x {measure.sessions} "
        f"sessions: about {terminal.duration(plan.estimate_s)}, compilation not included"
    )


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f}"


def _report(outcome: Outcome) -> None:
    sweep = outcome.plan.sweep
    table = summary.winners(outcome.rows, sweep.axes, sweep.baseline)
    if table.rows:
        print()
        terminal.print_table(table.header, table.rows, numeric=table.numeric)
    left_out = summary.left_out(outcome.rows)
    if left_out:
        print()
        print("Not timed:")
        for line in left_out:
            print(f"  {line}")
    print()
    if outcome.interrupted:
        print(f"Interrupted after {len(summary.by_case(outcome.rows))} of {len(outcome.plan.tasks)} cases.")
    print(f"{summary.counts(outcome.rows) or 'no rows'}: {outcome.csv}")
    for old in outcome.moved:
        print(f"the earlier file is now {old}")


def _draw(outcome: Outcome) -> None:
    from kbench import plotting, table

    if not any(row.ms is not None for row in outcome.rows):
        return
    try:
        pictures = plotting.write(outcome.csv, "gbps", outcome.csv.parent)
    except table.TableError as error:
        terminal.warn(f"no plot: {error}")
        return
    for picture in pictures:
        print(f"plot: {picture}")
