"""A run: measures the cases of a plan, and writes the CSV and the environment file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from kbench import interrupts
from kbench.clocks import LockedClock, locked_clocks, note_moved
from kbench.config.plan import Plan
from kbench.errors import ExitStatus, ResultsError
from kbench.execute import progress
from kbench.execute.environment_record import continue_run, describe_run
from kbench.execute.executor import Executor, Finished
from kbench.execute.existing_results import ResumeMode, StartingPoint, read_existing
from kbench.execute.lock import device_lock, hold, results_lock
from kbench.execute.writer import Writer, check_writable
from kbench.results.row import Row
from kbench.text import terminal


@dataclass
class RunResult:
    """The result of a run, or of a plot of a script.

    moved        earlier results files, under their new names
    interrupted  by Ctrl-C or a signal
    plan         None for a script or a program
    baseline     name of the configuration that speed-ups refer to; None if there is none
    """

    csv: Path
    plan: Plan | None = None
    rows: list[Row] = field(default_factory=list)
    moved: list[Path] = field(default_factory=list)
    interrupted: bool = False
    baseline: str | None = None

    @property
    def exit_status(self) -> int:
        if self.interrupted:
            return ExitStatus.INTERRUPTED
        if any(row.status.failed for row in self.rows):
            return ExitStatus.FAILED
        measured = any(row.status.right for row in self.rows)
        return ExitStatus.OK if measured else ExitStatus.NOTHING


def execute(
    executor: Executor,
    plan: Plan,
    path: Path,
    *,
    continuing: ResumeMode | None = None,
    wait: bool = True,
    lock_clocks: str | None = None,
) -> RunResult:
    """Measure all cases that the results file does not have yet, and write each to the file when it ends.

    Without `continuing`, a new file begins. `lock_clocks` is `base` or a number of MHz.

    Ctrl-C ends the run and keeps the finished cases. Raises KeyboardInterrupt before the first case begins, ResultsError
    when results cannot be written or continued, Busy when another run uses a device and `wait` is off,
    UsageError when clocks cannot be locked, and ExecutionError when no device is left to measure on.
    """
    check_writable(path)
    if continuing == "append" and not path.exists():
        raise ResultsError(f"{path}: no such file to add sessions to; leave out --append to create it")
    with _locked(executor, path, wait=wait):
        start = StartingPoint(path, plan, plan.tasks)
        if continuing and path.exists():
            start = read_existing(path, plan, continuing, executor.scope)
        with locked_clocks(lock_clocks if start.remaining else None, executor.devices) as locked:
            return _measure(executor, start, locked)


@contextmanager
def _locked(executor: Executor, path: Path, *, wait: bool) -> Iterator[None]:
    """Inside, no other run uses the devices or the results file."""
    locks = {device_lock(device): device.name for device in executor.devices} | {results_lock(path): str(path)}
    with ExitStack() as locks_held:
        for lock in sorted(locks):  # always in this order, so that two runs never wait for each other
            locks_held.enter_context(hold(lock, locks[lock], wait=wait))
        yield


def _measure(executor: Executor, start: StartingPoint, locked: Sequence[LockedClock]) -> RunResult:
    """Measure the tasks that `start` leaves. The caller holds the locks and has `locked` the clocks."""
    path, plan, earlier = start.path, start.plan, start.rows or []
    entries = describe_run(plan, executor.scope, locked)
    if before := start.environment:
        if bool(before.locked_clocks) != bool(locked):
            now, then = ("locked", "not locked") if locked else ("not locked", "locked")
            terminal.note(f"the clocks are {now}; for the earlier rows they were {then}, so compare the column sm_mhz")
        entries = continue_run(before, entries, plan.measure.sessions)
    outcome = RunResult(path, plan, rows=list(earlier), baseline=plan.baseline)
    writer = Writer(path, plan.info.columns)
    if start.rows is not None:
        writer.cut(start.rows)
    if not start.remaining:
        terminal.note(f"{path}: nothing left to measure")
        return outcome
    measured_on = {row.case: row.device_uuid for row in earlier if row.device_uuid}
    with interrupts.once():
        if start.rows is None:
            outcome.moved += writer.begin().moved
        writer.write_environment(entries)
        with progress.make_progress(start.remaining) as display:
            try:
                for finished in executor.run(start.remaining, measured_on, display):
                    start.agree(finished.rows)
                    rows = _completed(finished, writer.add_machine(finished.machine), plan)
                    writer.write(rows, finished.calls, finished.device.name)
                    outcome.rows += rows
                    display.end(finished.task, rows, finished.place)
            except KeyboardInterrupt:
                outcome.interrupted = True
            finally:
                executor.stop()
        note_moved(locked, outcome.rows[len(earlier) :])
        writer.finish(interrupted=outcome.interrupted)
    order = {(task.case, task.session): number for number, task in enumerate(plan.tasks)}
    # -1: rows that were there before
    outcome.rows.sort(key=lambda row: order.get((row.case, row.session), -1))
    return outcome


def _completed(finished: Finished, env_id: str, plan: Plan) -> list[Row]:
    """Copies of the rows with what a worker does not know: the models and the weight of the case, the machine, and the device
    of a lost worker's rows."""
    device = finished.device
    return [
        replace(
            row,
            model=plan.models.get(row.case, ""),
            weight=plan.weights.get(row.case),
            env_id=env_id,
            device=row.device or device.name,
            device_index=device.index,
            device_uuid=device.uuid,
        )
        for row in finished.rows
    ]
