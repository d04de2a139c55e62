"""`kbench run`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kbench import summary
from kbench.analysis import analyse
from kbench.config import builtin
from kbench.config.load import Config
from kbench.execute.lock import command
from kbench.execute.plan import Plan, tensor_bytes
from kbench.execute.run import Outcome, RunOptions, execute, prepare
from kbench.text import terminal

CASES_LISTED = 1000
"""`--dry-run` counts the cases that follow."""

CASES_SHOWN = 30
"""On a terminal the end of a run has no more cases than that: the answer stands above them."""

PLACES_NAMED = 16
"""More than so many devices are counted, not named, in a line."""


def run(config: Config, options: RunOptions, *, dry_run: bool, plots: bool) -> int:
    """Measure and report. Returns the exit code."""
    note = terminal.note
    with prepare(config, options, note) as prepared:
        sweep, places = prepared.plan.sweep, prepared.executor.places
        if sweep.path.parent == builtin.folder():
            note(f"the built-in config {sweep.path.stem}: {sweep.path}")
        note(f"{sweep.operator} on {prepared.plan.device}{_side_by_side(places)}")
        if sweep.profile_automatic:
            note(f"no accelerator here: profile {sweep.profile} of {sweep.path.name} applies")
        if dry_run:
            _print_plan(prepared.plan, places, spread=options.spread)
            return 0
        outcome = execute(prepared, options, note)
    _report(outcome)
    if outcome.interrupted:
        again = command() if options.continuing == "append" and not outcome.begun else _resuming(command())
        note(f"continue with: {shlex.join(again)}")
    elif plots:
        _draw(outcome)
    return outcome.exit_status


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
        for number, case in enumerate(sweep.cases[:CASES_LISTED])
    ]
    header = (*sweep.axes, "dtype", "MB per tensor", "MB needed", *(["expected on"] if several else []))
    terminal.print_table(header, rows, numeric=("MB per tensor", "MB needed"))
    if (more := len(sweep.cases) - CASES_LISTED) > 0:
        print(f"... and {more:,} more cases")
    print()
    for one in sweep.configurations:
        reason = one.error or plan.unavailable.get(one.name)
        mark = " (baseline)" if one.name == sweep.baseline else ""
        print(f"{one.name}{mark}: {'cannot run: ' + reason if reason else 'will run'}")
    measure = sweep.measure
    expected = terminal.duration(plan.estimate_s(len(places), spread=spread))
    counts = (
        (len(sweep.cases), "case"),
        (len(plan.runnable), "provider"),
        (measure.rounds, "round"),
        (measure.sessions, "session"),
    )
    size = " x ".join(f"{count} {word}{'s' * (count != 1)}" for count, word in counts)
    print(f"{size}{f' on {len(places)} devices' if several else ''}: about {expected}, compilation not included")


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f}"


def _report(outcome: Outcome) -> None:
    found = analyse(outcome.rows, outcome.plan.sweep.baseline)
    summary.print_summary(found, most_cases=CASES_SHOWN, more=f"kbench show {shlex.quote(str(outcome.csv))}")
    if outcome.interrupted:
        print(f"Interrupted after {summary.cases_of(outcome.rows)} of {len(outcome.plan.tasks)} cases.")
    print(f"{summary.counts(outcome.rows) or 'no rows'}: {outcome.csv}")
    if outcome.moved:
        first, *others = outcome.moved
        print(f"the earlier results are now {' and '.join([str(first), *(old.name for old in others)])}")


def _draw(outcome: Outcome) -> None:
    from kbench import plotting
    from kbench.errors import ResultsError, UsageError

    if not any(row.ms is not None for row in outcome.rows):
        return
    try:
        pictures = plotting.write(outcome.csv)
    except (UsageError, ResultsError) as error:
        terminal.warn(f"no plot: {error}")
        return
    for picture in pictures:
        print(f"plot: {picture}")
