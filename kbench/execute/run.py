"""A whole run: config in, plan, measured cases, CSV and environment file out."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbench import interrupts
from kbench.config.load import Config, plugin_failures
from kbench.errors import ExitStatus, ResultsError, UsageError
from kbench.execute import environment, existing_results, progress
from kbench.execute.executors.interface import Executor, Finished
from kbench.execute.executors.local import Local
from kbench.execute.existing_results import ExistingResults, ResumeMode
from kbench.execute.lock import device_key, file_key, hold, hold_results
from kbench.execute.plan import Plan, plan, smallest
from kbench.execute.writer import Writer, probe
from kbench.results.row import Row, Status, now
from kbench.text import redact

_ADDRESS = re.compile(r"(tcp|tls|ws|wss)://(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")


@dataclass
class Outcome:
    """What a run left behind. `begun` tells whether the sidecar knows of it: a file that is continued keeps its own until
    there is a row to add."""

    plan: Plan
    csv: Path
    moved: list[Path] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    interrupted: bool = False
    begun: bool = False

    @property
    def exit_status(self) -> ExitStatus:
        """See "Exit codes" in the README."""
        if self.interrupted:
            return ExitStatus.INTERRUPTED
        if any(row.status.failed for row in self.rows):
            return ExitStatus.FAILED
        measured = any(row.status in (Status.OK, Status.CHECKED) for row in self.rows)
        return ExitStatus.OK if measured else ExitStatus.NOTHING


@dataclass(frozen=True)
class RunOptions:
    """What the caller of a run chooses beside its config. The command line and the Python API both make one.

    out         folder for the CSV and the environment file
    devices     devices of this host to measure on: `all`, or numbers and UUIDs separated by commas
    scheduler   address of a dask scheduler, to measure on its workers
    spread      measure the sessions of a case on different devices; by default they share one
    continuing  how to continue an existing results file; None starts a new file
    wait        wait while another run uses a device; otherwise raise Busy

    Without `devices` and `scheduler`, kbench measures on the current device. Raises UsageError when both are given.
    """

    out: Path = Path("results")
    devices: str | None = None
    scheduler: str | None = None
    spread: bool = False
    continuing: ResumeMode | None = None
    wait: bool = True

    def __post_init__(self) -> None:
        if self.devices is not None and self.scheduler is not None:
            raise UsageError("--devices and --scheduler cannot be combined; choose one")


@dataclass
class Prepared:
    """A config that has met what it will be measured on: names are checked, the plan is made."""

    executor: Executor
    plan: Plan

    def __enter__(self) -> Prepared:
        return self

    def __exit__(self, *exception: object) -> None:
        self.executor.stop()


def prepare(config: Config, options: RunOptions, note: Callable[[str], None]) -> Prepared:
    """Start a worker and make the plan. The caller has to stop the executor that is returned: use `with`.

    Raises UsageError, ConfigError, WorkerLost and ExecutionError."""
    executor = executor_for(config, options, note)
    try:
        layout = plan(config.resolve(executor.catalog), executor.catalog)
        for failure in plugin_failures(executor.catalog):  # of an installed package, and perhaps not missed
            note(f"warning: {failure}")
        if layout.tasks and layout.runnable:
            executor.attempt(smallest(layout.tasks))
        return Prepared(executor, layout)
    except BaseException:
        executor.stop()
        raise


def executor_for(config: Config, options: RunOptions, note: Callable[[str], None]) -> Executor:
    """Make the executor that the options ask for, and start its first worker. Tests replace this function."""
    if options.scheduler is not None:
        _check_address(options.scheduler)
        from kbench.execute.executors.cluster import Cluster

        return Cluster(options.scheduler, config, note, spread=options.spread)
    if options.devices is not None:
        from kbench.execute.executors.devices import Devices

        return Devices(config.plugins, note, options.devices, spread=options.spread)
    return Local(config.plugins, note)


def _check_address(address: str) -> None:
    """Whether dask can connect to an address at all: of others its client leaves tracebacks. Raises UsageError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 0 < int(match["port"]) < 65536:
        raise UsageError(
            f"--scheduler {address}: expected tcp://HOST:PORT or tls://HOST:PORT, for example tcp://10.0.0.1:8786"
        )


def execute(prepared: Prepared, options: RunOptions, note: Callable[[str], None] = lambda line: None) -> Outcome:
    """Measure everything that is not there yet, flushing case by case.

    Ctrl-C ends the run and keeps what was measured: KeyboardInterrupt only where that is nothing. Raises ResultsError when
    results cannot be written or continued, Busy when another run has a device and there is no waiting for it, and
    ExecutionError when there is nothing left to measure with.
    """
    layout, executor = prepared.plan, prepared.executor
    path = options.out / f"{layout.sweep.path.stem}.csv"
    probe(path)
    if options.continuing == "append" and not path.exists():
        raise ResultsError(f"{path}: no such file to add sessions to; leave out --append to make it")
    locks = {device_key(device): device["name"] for device in executor.devices} | {file_key(path): str(path)}
    with ExitStack() as held:
        for key in sorted(locks):  # in one order, so that two runs never wait for each other
            held.enter_context(hold(key, locks[key], wait=options.wait, note=note))
        held.enter_context(hold_results(path, wait=options.wait, note=note))
        past = None
        if options.continuing and path.exists():
            past = existing_results.read(
                path, layout, executor.catalog["environment"], options.continuing, executor.scope
            )
        for line in past.notes if past else ():
            note(line)
        if not past or past.left:
            executor.start()
        return _measure(prepared, path, past, note)


def _measure(prepared: Prepared, path: Path, past: ExistingResults | None, note: Callable[[str], None]) -> Outcome:
    """Measure what `past` leaves to do, all of the plan without it. The devices and the file are ours."""
    executor, layout = prepared.executor, past.plan if past else prepared.plan
    tasks = past.left if past else layout.tasks
    homes = {row.case.key: row.device_uuid for row in past.rows if row.device_uuid} if past else {}
    sidecar = environment.fresh(layout, executor.catalog, executor.scope)
    if past and past.environment:
        sidecar = environment.continued(past.environment, sidecar, layout.sweep.measure.sessions)
    outcome = Outcome(layout, path, rows=list(past.rows) if past else [])
    if not tasks:
        note(f"{path}: nothing left to measure")
        return outcome
    with interrupts.once(), closing(Writer(path, layout.sweep.axes, past.keep if past else None)) as writer:
        outcome.moved += writer.moved
        outcome.begun = not past
        if outcome.begun:
            writer.write_environment(sidecar)
        with progress.listener(tasks) as display:
            writer.note = display.note
            try:
                for finished in executor.run(tasks, homes, display):
                    rows = _stamped(finished)
                    if past:
                        past.agree(rows)
                    known = environment.knows(sidecar, environment.env_id(finished.machine))
                    if not known:
                        sidecar = environment.extended(sidecar, finished.machine)
                    if not (known and outcome.begun):
                        writer.write_environment(sidecar)
                        outcome.begun = True
                    writer.write(rows)
                    outcome.rows += rows
                    display.end(finished.task, rows, finished.place)
            except KeyboardInterrupt:
                outcome.interrupted = True
            finally:
                executor.stop()
            writer.check()
        if outcome.begun:
            writer.write_environment(sidecar | {"finished_at": now(), "interrupted": outcome.interrupted})
    order: dict[Any, int] = {(task.case.key, task.session): n for n, task in enumerate(layout.tasks)}
    outcome.rows.sort(key=lambda row: order[row.case.key, row.session])
    return outcome


def _stamped(finished: Finished) -> list[Row]:
    """The rows with where they come from, those of a lost worker included."""
    machine = environment.env_id(finished.machine)
    for row in finished.rows:
        row.reason = redact.text(row.reason)
        row.env_id, row.device = machine, row.device or finished.device["name"]
        row.device_index, row.device_uuid = finished.device["index"], finished.device["uuid"]
    return finished.rows
