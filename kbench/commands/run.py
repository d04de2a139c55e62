"""`kbench run` measures a config, a script or a folder, `kbench exec` a program. Both print the summary."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from kbench.commands.options import (
    KeepTrying,
    LockClocks,
    OnlyProviders,
    Plugins,
    Profile,
    Sets,
    ShapesOption,
    parse_clock,
)
from kbench.commands.plan_table import ONLY_CHECKED, print_plan
from kbench.config import builtin
from kbench.errors import ExitStatus, ResultsError, UsageError
from kbench.text import terminal

if TYPE_CHECKING:
    from kbench.execute.executors.prepare import Resolvable
    from kbench.execute.existing_results import ResumeMode
    from kbench.execute.run import RunOptions, RunResult
    from kbench.sources.source_config import SourceConfig

CASES_SHOWN = 30
"""On a terminal, the summary of a run shows this many cases. `kbench show` prints all of them."""

WAIT_HINT = "; with --no-wait kbench fails at once"

PLACES_NAMED = 16
"""Up to this many devices are named in a line. More are counted."""

PROBLEMS = "name a YAML config, or a problem of FlashInfer-Trace or KernelBench (see docs/problems.md)"
"""What to name instead of a folder that is no problem."""


def run(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="CONFIG", help=f"A YAML file, or a built-in config: {', '.join(builtin.config_names())}."
        ),
    ],
    arguments: Annotated[
        Optional[list[str]], typer.Argument(metavar="[-- ARGUMENTS]", help="The arguments of a script.")
    ] = None,
    sets: Sets = None,
    only: OnlyProviders = None,
    profile: Profile = None,
    plugin: Plugins = None,
    shapes: ShapesOption = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")] = Path("results"),
    sessions: Annotated[
        int | None,
        typer.Option(
            "--sessions",
            metavar="N",
            min=1,
            help="Measure all cases N times, each time in a fresh process. Default: `sessions` of the config, or 1.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run: measure the cases that are missing.")
    ] = False,
    append: Annotated[
        bool, typer.Option("--append", help="Add sessions to the results of a finished run. --sessions says how many.")
    ] = False,
    devices: Annotated[
        str | None,
        typer.Option(
            "--devices",
            metavar="DEVICES",
            help="Measure on several devices of this host at once: all, indices such as 0,2, or UUIDs.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="ADDRESS", help="Measure on a dask cluster: tcp://host:8786."),
    ] = None,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="With --devices or --scheduler: measure the sessions of a case on different devices. Default: all sessions of "
            "a case on one device.",
        ),
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait/--no-wait",
            help="If another run uses the device, wait for it. --no-wait ends with exit code 3 instead.",
        ),
    ] = True,
    keep_trying: KeepTrying = False,
    lock_clocks: LockClocks = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    plots: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw a plot at the end.")] = True,
) -> int:
    """Check all providers, and time the correct ones.

    The results go to a CSV file, and a plot shows them. CONFIG may also be a benchmark script (bench.py), or a problem of
    another benchmark such as KernelBench (a folder or a file).

    Exit code: 0 success; 1 a provider gave a wrong result or failed; 2 bad input; 3 nothing could be measured; 130
    interrupted. For a script that runs no perf_report, this command does the same as kbench exec, and
    uses the exit codes of kbench exec.
    """
    from kbench.config.load import load_config
    from kbench.execute.run import RunOptions
    from kbench.execute.writer import ROWS_STAY
    from kbench.protocol import Source
    from kbench.sources import SourceKind, source_of
    from kbench.sources.source_config import NoPlots, SourceConfig

    if resume and append:
        raise UsageError("--resume and --append cannot be combined; choose one")
    continuing: ResumeMode | None = "resume" if resume else "append" if append else None
    usual = RunOptions(out, wait=wait, wait_hint=WAIT_HINT, unwritten=f"{ROWS_STAY}; continue with --resume")
    options = replace(
        usual,
        devices=devices,
        scheduler=scheduler,
        spread=spread,
        continuing=continuing,
        keep_trying=keep_trying,
        lock_clocks=parse_clock(lock_clocks),
    )
    changes = [*(sets or ()), *([f"--sessions={sessions}"] if sessions is not None else [])]
    try:
        if source_of(config) is SourceKind.CONFIG:
            if arguments:
                what = f"{config}: a config takes no arguments, but got {shlex.join(arguments)}"
                remedy = "if these are values of an option, repeat the option: --set N=64 --set M=32"
                raise UsageError(f"{what}; {remedy}")
            if config.is_dir() and str(config) not in builtin.config_names():
                raise UsageError(f"{config}: is a folder without a benchmark problem that kbench can read; {PROBLEMS}")
            loaded = load_config(
                config, sets=changes, only=only or (), profile=profile, plugins=plugin or (), shapes=shapes
            )
            return _measure(loaded, options, dry_run=dry_run, plots=plots).status
        if not config.exists():
            raise UsageError(f"{config}: no such file")
        if profile or plugin or shapes:
            raise UsageError(
                f"{config}: --profile, --plugin and --shapes work only with a config file (YAML); leave them out"
            )
        source = SourceConfig(Source(str(config.absolute()), tuple(arguments or ())), sets=changes, only=only or ())
        try:
            return _measure_source(source, options, dry_run=dry_run, plots=plots)
        except NoPlots:
            if changes or only or dry_run or options != usual:
                raise  # what these options ask for needs a plan
            terminal.note(
                f"{config} runs no triton.testing.perf_report, so kbench measures each do_bench call when the script makes it"
            )
            return exec_command([sys.executable, str(config), *(arguments or ())], out)
    except KeyboardInterrupt:  # before the run began, or after it ended
        print("interrupted; earlier measurements are kept", file=sys.stderr)
        return ExitStatus.INTERRUPTED


def _measure_source(config: SourceConfig, options: RunOptions, *, dry_run: bool, plots: bool) -> ExitStatus:
    """Measure the sweeps of a script or a folder one after another. Returns the gravest exit status."""
    first = _measure(config, options, dry_run=dry_run, plots=plots)
    statuses = [first.status]
    for number in range(1, first.sweeps):
        if statuses[-1] is ExitStatus.INTERRUPTED:
            break
        print()
        statuses.append(_measure(replace(config, number=number), options, dry_run=dry_run, plots=plots).status)
    return max(statuses)


class ConfigRun(NamedTuple):
    """How the run of a config ended, and how many sweeps its source has; 0 for a config file."""

    status: ExitStatus
    sweeps: int


def _measure(config: Resolvable, options: RunOptions, *, dry_run: bool, plots: bool) -> ConfigRun:
    from kbench.execute.environment_record import command_line
    from kbench.execute.executors.prepare import prepare
    from kbench.execute.run import execute

    note = terminal.note
    with prepare(config, options, note) as prepared:
        sweep, places = prepared.plan.sweep, prepared.executor.places
        sweeps = len(prepared.executor.catalog.sweeps)
        if sweep.path.parent == builtin.folder():
            note(f"the built-in config {sweep.path.stem}: {sweep.path}")
        note(f"{sweep.operator} on {prepared.plan.device}{_side_by_side(places)}")
        if sweep.profile_automatic:
            applies = f"profile {sweep.profile} of {sweep.path.name} applies"
            of_cluster = f"the first worker of the cluster has no accelerator: {applies}; choose another with --profile"
            note(of_cluster if options.scheduler else f"no accelerator here: {applies}")
        if interpreted := [one.name for one in prepared.plan.runnable if one.name in prepared.plan.interpreted]:
            note(f"{', '.join(interpreted)}: {ONLY_CHECKED}")
        if dry_run:
            print_plan(prepared.plan, places, spread=options.spread)
            return ConfigRun(ExitStatus.OK, sweeps)
        outcome = execute(prepared, options, note)
    _report(outcome)
    if outcome.interrupted:
        again = command_line() if options.continuing == "append" and not outcome.begun else _resuming(command_line())
        note(f"continue with: {shlex.join(again)}")
    elif plots:
        _draw(outcome)
    return ConfigRun(outcome.exit_status, sweeps)


def _resuming(arguments: Sequence[str]) -> list[str]:
    return [*(word for word in arguments if word not in ("--append", "--resume")), "--resume"]


def _side_by_side(places: Sequence[str]) -> str:
    if places == ("",):
        return ""
    return f": {', '.join(places)}" if len(places) <= PLACES_NAMED else f": {len(places)} devices side by side"


def _report(outcome: RunResult) -> None:
    from kbench import summary
    from kbench.analysis import analyse

    found = analyse(outcome.rows, outcome.plan.sweep.baseline)
    summary.print_summary(found, most_cases=CASES_SHOWN, more=f"kbench show {shlex.quote(str(outcome.csv))}")
    if outcome.interrupted:
        print(f"Interrupted after {outcome.plan.progress(summary.cases_of(outcome.rows))}.")
    if (wanted := outcome.plan.sweep.measure.precision) is not None:
        terminal.print_paragraph(summary.precision_reached(outcome.rows, wanted))
    print(f"{summary.counts(outcome.rows) or 'no rows'}: {outcome.csv}")
    if names := sorted({row.configuration_name for row in outcome.rows if row.not_tried}):
        terminal.note(f"to try {', '.join(names)} in every case, run again with --keep-trying")
    if outcome.moved:
        first, *others = outcome.moved
        print(f"the earlier results were moved to {' and '.join([str(first), *(old.name for old in others)])}")


def _draw(outcome: RunResult) -> None:
    from kbench import plotting

    if not any(row.ms is not None for row in outcome.rows):
        return
    try:
        pictures = plotting.write_pictures(outcome.csv)
    except (UsageError, ResultsError) as error:
        terminal.warn(f"no plot: {error}")
        return
    for picture in pictures:
        print(f"plot: {picture}")


def exec_command(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND", help="The command, for example -- python bench.py.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the results.")] = Path("results"),
) -> int:
    """Run a program and measure its do_bench calls.

    Write the command after --: kbench exec -- python bench.py --size 4096

    Exit code: that of the program if it is not 0. Otherwise: 0 success; 2 bad input; 3 no call of do_bench gave a time; 130
    interrupted.
    """
    from kbench import summary
    from kbench.analysis import analyse
    from kbench.execute.program import run_program

    outcome = run_program(command, out, terminal.note)
    if outcome.code and not outcome.interrupted:
        how = f"exit code {outcome.code}" if outcome.code > 0 else f"signal {-outcome.code}"
        terminal.warn(f"{shlex.join(command)}: ended with {how}")
    if outcome.csv is None:
        calls = "no call of triton.testing.do_bench, do_bench_cudagraph or kbench.do_bench gave a time"
        why = "the kernels ran in Triton's interpreter, so these times do not show how fast the kernels are"
        why += "; unset TRITON_INTERPRET and run on a GPU"
        terminal.warn(f"nothing was measured: {why if outcome.interpreted else calls}")
        return outcome.exit_code
    summary.print_summary(analyse(outcome.rows), more=f"kbench show {shlex.quote(str(outcome.csv))}")
    print(f"{summary.counts(outcome.rows)}: {outcome.csv}")
    if outcome.moved:
        print(f"the earlier results were moved to {' and '.join(map(str, outcome.moved))}")
    return outcome.exit_code
