"""`kbench run`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from kbench import summary, terminal
from kbench.config import Config
from kbench.execute.history import Continuing
from kbench.execute.lock import command
from kbench.execute.plan import Plan, tensor_bytes
from kbench.execute.run import Outcome, execute, prepare


def run(
    config: Config, out: Path, *, continuing: Continuing | None = None, wait: bool = True, dry_run: bool, plots: bool
) -> int:
    """Measure and report. Returns the exit code."""
    notes = terminal.console(stderr=True)

    def note(line: str) -> None:
        notes.print(line, markup=False)

    with prepare(config, note) as prepared:
        sweep = prepared.plan.sweep
        note(f"{sweep.operator} on {prepared.plan.device}")
        if sweep.profile_automatic:
            note(f"no accelerator here: profile {sweep.profile} of {sweep.path} applies")
        if dry_run:
            _print_plan(prepared.plan)
            return 0
        outcome = execute(prepared, out, continuing=continuing, wait=wait, note=note)
    _report(outcome)
    if outcome.interrupted:
        again = command() if continuing == "append" and not outcome.begun else _resuming(command())
        note(f"continue with: {shlex.join(again)}")
    elif plots:
        _draw(outcome)
    return outcome.exit_code


def _resuming(arguments: Sequence[str]) -> list[str]:
    return [*(word for word in arguments if word not in ("--append", "--resume")), "--resume"]


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
    winners = summary.winners(outcome.rows, sweep.axes, sweep.baseline)
    if winners.rows:
        print()
        terminal.print_table(winners.header, winners.rows, numeric=winners.numeric)
    stages = summary.stages(outcome.rows, sweep.axes)
    if stages.rows:
        print()
        print("Stages, ms:")
        terminal.print_table(stages.header, stages.rows, numeric=stages.numeric)
    left_out = summary.left_out(outcome.rows)
    if left_out:
        print()
        print("Not timed:")
        for line in left_out:
            print(f"  {line}")
    print()
    if outcome.interrupted:
        print(f"Interrupted after {len(summary.by_case(outcome.rows))} of {len(outcome.plan.tasks)} cases.")
    for line in summary.caveats(outcome.rows):
        print(line)
    print(f"{summary.counts(outcome.rows) or 'no rows'}: {outcome.csv}")
    for old in outcome.moved:
        print(f"the earlier file is now {old}")


def _draw(outcome: Outcome) -> None:
    from kbench import plotting, table

    if not any(row.ms is not None for row in outcome.rows):
        return
    try:
        pictures = plotting.write(outcome.csv)
    except table.TableError as error:
        terminal.warn(f"no plot: {error}")
        return
    for picture in pictures:
        print(f"plot: {picture}")
