"""`kbench run` measures a config, a script or a folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from kbench.commands.options import (
    ConfigFile,
    LockClocks,
    OnlyProviders,
    Plugins,
    Profile,
    ResultsFolder,
    Sets,
    ShapesOption,
    parse_clock,
)
from kbench.commands.run_output import announce, draw, print_plan, print_results
from kbench.errors import ExitStatus, UsageError
from kbench.execute.spawning import start_ahead
from kbench.text import terminal


def run(
    config: ConfigFile,
    arguments: Annotated[
        Optional[list[str]], typer.Argument(metavar="ARGUMENTS", help="The arguments of a script, after --.")
    ] = None,
    sets: Sets = None,
    only: OnlyProviders = None,
    profile: Profile = None,
    plugin: Plugins = None,
    shapes: ShapesOption = None,
    out: ResultsFolder = Path("results"),
    sessions: Annotated[
        int | None,
        typer.Option(
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
            metavar="DEVICES",
            help="Measure on several devices of this host at once: all, indices such as 0,2, or UUIDs.",
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Measure on a dask cluster: tcp://host:8786."),
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
    lock_clocks: LockClocks = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    plots: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw a plot at the end.")] = True,
) -> int:
    """Check all providers, and time the correct ones.

    The results go to a CSV file, and a plot shows them. CONFIG may also be a benchmark script (bench.py), or a problem of
    another benchmark such as KernelBench (a folder or a file).

    Exit code: 0 success; 1 a provider gave a wrong result or failed; 2 bad input; 3 nothing could be measured; 130
    interrupted.
    """
    if config.suffix != ".py" and devices is None and scheduler is None:
        start_ahead(1)  # before the imports, which take half a second
    from kbench.config.load import load_config
    from kbench.execute.environment_record import command_line
    from kbench.execute.prepare import prepare, start_executor
    from kbench.execute.run import execute
    from kbench.sources import is_problem

    if resume and append:
        raise UsageError("--resume and --append cannot be combined; choose one")
    if lock_clocks is not None and scheduler is not None:
        raise UsageError("--lock-clocks locks devices of this host; it cannot be combined with --scheduler")
    clock = parse_clock(lock_clocks)
    try:
        if config.suffix == ".py" and not is_problem(config):
            of_plans = {
                "--only": only, "--profile": profile, "--plugin": plugin, "--shapes": shapes, "--resume": resume,
                "--append": append, "--devices": devices, "--scheduler": scheduler, "--spread": spread, "--no-wait": not wait,
                "--lock-clocks": lock_clocks, "--dry-run": dry_run,
            }  # fmt: skip
            refused = [name for name, value in of_plans.items() if value]
            return _measure_script(config, arguments or (), out, sets or (), sessions, refused, plots=plots)
        if arguments:
            message = f"{config}: only a script takes arguments, but got {shlex.join(arguments)}"
            raise UsageError(f"{message}; if these are values of an option, repeat it: --set N=64,128 --set M=32")
        loaded = load_config(
            config,
            sets=sets or (),
            only=only or (),
            profile=profile,
            plugins=plugin or (),
            shapes=shapes,
            sessions=sessions,
        )
        with start_executor(loaded, devices=devices, scheduler=scheduler, spread=spread) as executor:
            plan = prepare(loaded, executor)
            announce(plan, executor.places)
            if dry_run:
                print_plan(plan, executor.places, spread=spread)
                return ExitStatus.OK
            result = execute(
                executor,
                plan,
                out / f"{plan.path.stem}.csv",
                continuing="append" if append else "resume" if resume else None,
                wait=wait,
                lock_clocks=clock,
            )
        print_results(result)
        if result.interrupted:
            words = [word for word in command_line() if word not in ("--append", "--resume")]
            terminal.note(f"continue with: {shlex.join([*words, '--resume'])}")
        elif plots:
            draw(result)
        return result.exit_status
    except KeyboardInterrupt:  # before the run began, or after it ended
        print("interrupted; earlier measurements are kept", file=sys.stderr)
        return ExitStatus.INTERRUPTED


def _measure_script(
    script: Path,
    arguments: Sequence[str],
    out: Path,
    sets: Sequence[str],
    sessions: int | None,
    refused: Sequence[str],
    *,
    plots: bool,
) -> int:
    """Measure a script while it runs. Each of its plots has results of its own. Raises UsageError for `refused` options."""
    from kbench.config.load import measure_settings
    from kbench.execute.program import run_script

    if not script.exists():
        raise UsageError(f"{script}: no such file")
    if refused:
        reason = "cannot be used with a script, which says what it measures as it runs; leave it out"
        raise UsageError(f"{script}: {', '.join(refused)} {reason}")
    done = run_script(script, arguments, out, measure_settings(sets, sessions))
    if done.fault and not done.interrupted:
        terminal.warn(f"{done.fault.where}: {done.fault.message}; what it had measured until then is kept")
    for result in done.results:
        print_results(result)
        if plots and not done.interrupted:
            draw(result)
    if done.interrupted:
        raise KeyboardInterrupt
    failed = ExitStatus.FAILED if done.fault or done.code else ExitStatus.OK
    return max([failed, *(result.exit_status for result in done.results)]) if done.results else ExitStatus.NOTHING
