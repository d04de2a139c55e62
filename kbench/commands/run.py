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
from kbench.execute.run import Outcome, Target, execute, prepare

PLACES_NAMED = 16
"""More than so many devices are counted, not named, in a line."""


def run(
    config: Config,
    out: Path,
    *,
    target: Target,
    continuing: Continuing | None = None,
    wait: bool = True,
    dry_run: bool,
    plots: bool,
) -> int:
    """Measure and report. Returns the exit code."""
    notes = terminal.console(stderr=True)

    def note(line: str) -> None:
        notes.print(line, markup=False)

    with prepare(config, note, target) as prepared:
        sweep, places = prepared.plan.sweep, prepared.executor.places
        note(f"{sweep.operator} on {prepared.plan.device}{_side_by_side(places)}")
        if sweep.profile_automatic:
            note(f"no accelerator here: profile {sweep.profile} of {sweep.path} applies")
        if dry_run:
            _print_plan(prepared.plan, places, spread=target.spread)
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


def _side_by_side(places: Sequence[str]) -> str:
    if places == ("",):
        return ""
    return f": {', '.join(places)}" if len(places) <= PLACES_NAMED else f": {len(places)} side by side"


def _print_plan(plan: Plan, places: Sequence[str], *, spread: bool) -> None:
    """Cases, with where each is expected to go: all take about the same time, so they go round."""
    sweep, several = plan.sweep, places != ("",)
    rows = [
        [
            *(str(case.axes[name]) for name in sweep.axes),
            case.dtype,
            _mb(tensor_bytes(case)),
            _mb(4 * tensor_bytes(case)),
            *([places[number % len(places)]] if several else []),
        ]
        for number, case in enumerate(sweep.cases)
    ]
    header = (*sweep.axes, "dtype", "MB a tensor", "MB at least", *(["expected on"] if several else []))
    terminal.print_table(header, rows, numeric=("MB a tensor", "MB at least"))
    print()
    for curve in sweep.curves:
        reason = curve.error or plan.unavailable.get(curve.name)
        mark = " (baseline)" if curve.name == sweep.baseline else ""
        print(f"{curve.name}{mark}: {'cannot run: ' + reason if reason else 'will run'}")
    measure = sweep.measure
    expected = terminal.duration(plan.estimate_s(len(places), spread=spread))
    print(
        f"{len(sweep.cases)} cases x {len(plan.runnable)} providers x {measure.rounds} rounds x {measure.sessions} "
        f"sessions{f' on {len(places)} devices' if several else ''}: about {expected}, compilation not included"
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
