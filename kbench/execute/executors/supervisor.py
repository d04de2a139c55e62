"""A worker process that is restarted when it dies: it measures one task at a time, whatever happens to the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kbench.errors import ConfigError, ConfigIssue, DeviceGone, SourceLocation
from kbench.execute.executor import Finished, Listener, make_failed_row
from kbench.execute.plan import Task, traits
from kbench.execute.worker.starting import PluginFiles
from kbench.execute.worker.starting import start as start_worker
from kbench.execute.worker.worker_failed import WorkerFailed
from kbench.execute.worker.worker_process import IDLE, NONSENSE, Worker
from kbench.protocol import RANDOM, Catalog, Configuration, DeviceInfo, EdgeResult, Rows, StepBegun, TrialFailed
from kbench.results.case import format_params
from kbench.results.row import Row
from kbench.results.vocabulary import Control, Role, Status
from kbench.text.printable import REASON_LIMIT, printable

UNBLAMED_LIMIT = 2
"""How often a worker may die outside any provider's step before the rest of the case is given up."""

START_LIMIT = 2
"""How often a new worker may fail to start before the device counts as lost."""


class WorkerSupervisor:
    """Measures on a device of the catalog, or on the worker's current device without one. Starts no worker yet.

    `place` names the device in messages, and `note` receives the workers' notes.
    """

    def __init__(
        self,
        plugins: PluginFiles,
        note: Callable[[str], None],
        *,
        device: DeviceInfo | None = None,
        place: str = "",
    ) -> None:
        self._plugins, self._note, self._device, self._place = plugins, note, device, place
        self._session: int | None = None
        self._stopped = False
        self._worker: Worker | None = None
        self._ran: set[str] = set()  # names of the configurations that have run in the worker

    def __enter__(self) -> WorkerSupervisor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Catalog:
        """Start the worker, unless there is one, and return its catalog. Raises WorkerLost."""
        if self._worker is None:
            worker = start_worker(self._plugins, self._note, self._device.variables if self._device else {})
            if self._stopped:
                worker.stop()
                raise DeviceGone("stopped")
            self._worker, self._ran = worker, set()
        return self._worker.catalog

    def measure(self, task: Task, listener: Listener) -> Finished:
        """Measure a task. Each session gets a new worker.

        A case is measured as a whole. When a provider takes the worker down, it gets its row, and all others are measured
        again in a new worker, so that they stay comparable. A worker that was killed from outside may be no provider's
        fault: the provider that ran is blamed only when it happens again. A worker that ended by itself may be the fault
        of any provider that has run in it: each is measured alone, to find out.

        Raises DeviceGone.
        """
        if self._session not in (None, task.session):
            self._end_worker()
        self._session = task.session
        listener.begin(task, self._place)
        catalog = self.ready(task).catalog
        return Finished(
            task=task,
            rows=self._rows(task, listener),
            device=self._device or catalog.device,
            machine=catalog.machine,
            place=self._place,
        )

    def try_operator(self, task: Task) -> None:
        """Call the operator's own functions on the case of a task. Raises ConfigError when one fails."""
        try:
            found = list(self.ready(task).ask(task.trial_request(), limit_s=task.settings.timeout_s))
        except WorkerFailed as lost:
            self._worker = None
            why = lost.reason.replace(f" {IDLE}", "")
            what = f"a trial call of its inputs and reference on {task.case.label} failed: {why}"
            raise ConfigError([ConfigIssue(SourceLocation(f"operator {task.case.operator}"), what)]) from None
        if faults := [
            ConfigIssue(SourceLocation(event.where), event.what) for event in found if isinstance(event, TrialFailed)
        ]:
            raise ConfigError(faults)

    def check(self, task: Task, listener: Listener) -> Iterator[tuple[Configuration, EdgeResult]]:
        """Yield a result per configuration and edge input. A configuration that kills the worker on an edge input gets a
        result that says so, and the others follow."""
        for one in task.configurations:
            if one.error:
                yield one, EdgeResult(0, RANDOM, Status.ERROR, one.error)
                continue
            done: list[str] = []
            while True:
                edge = RANDOM
                try:
                    for event in self.ready(task).ask(task.check_request(one, done)):
                        listener.event(event, self._place)
                        if isinstance(event, StepBegun):
                            edge = event.edge
                        elif isinstance(event, EdgeResult):
                            done.append(event.edge)
                            yield one, replace(event, reason=printable(event.reason, REASON_LIMIT))
                    break
                except WorkerFailed as lost:
                    self._worker = None
                    if edge in done:
                        raise  # not caused by an edge input: it would happen again and again
                    done.append(edge)
                    yield one, EdgeResult(0, edge, lost.status, lost.reason)

    def stop(self) -> None:
        """End the worker, and start no other. Another thread that waits for the worker gets WorkerLost."""
        self._stopped = True
        self._end_worker()

    def _end_worker(self) -> None:
        if self._worker:
            self._worker.stop()
            self._worker = None

    def ready(self, task: Task) -> Worker:
        """A worker that fits the plan of the task; started if necessary. Raises DeviceGone."""
        failures = 0
        while self._worker is None:
            if self._stopped:
                raise DeviceGone("stopped")
            try:
                self.start()
            except WorkerFailed as lost:
                failures += 1
                if failures == START_LIMIT:
                    raise DeviceGone(f"no worker can be started: {lost.reason}") from None
        catalog = self._worker.catalog
        found = traits(catalog, task.case.operator, {one.provider for one in task.configurations})
        needs = dict(task.needs)
        if self._device:
            found["its UUID"], needs["its UUID"] = catalog.device.uuid, self._device.uuid
        for name, wanted in needs.items():
            if found.get(name) != wanted:
                raise DeviceGone(f"{name} is {found.get(name) or 'not known'}, but the plan expects {wanted}")
        return self._worker

    def _rows(self, task: Task, listener: Listener) -> list[Row]:
        """One row per configuration, then the controls."""
        failed = {
            one.name: make_failed_row(task, one, Status.ERROR, one.error) for one in task.configurations if one.error
        }
        spared: set[str] = set()
        nobody_alone = False  # whether no configuration takes the worker down alone
        unblamed = 0
        while True:
            left = [one for one in task.configurations if one.name not in failed]
            if not left:
                return [failed[one.name] for one in task.configurations]
            try:
                rows = self._ask(self.ready(task), task, left, listener)
                break
            except WorkerFailed as lost:
                self._worker = None
                running = left[lost.index] if lost.index is not None and 0 <= lost.index < len(left) else None
                name = running.name if running else ""  # "": no provider was running
                if lost.killed and name not in spared:
                    spared.add(name)
                    if not self._stopped:
                        listener.note(f"{task.case.label}: the worker was {lost.reason}; trying once more")
                    continue
                others = self._ran - {running.name} if running else len(left) > 1
                if (lost.exited or not running) and others and not nobody_alone:
                    guilty = self._find_guilty(task, running, left, listener)
                    failed |= guilty
                    nobody_alone = not guilty
                    if guilty:
                        continue
                if running:
                    failed[running.name] = make_failed_row(task, running, lost.status, lost.reason)
                    continue
                unblamed += 1
                if unblamed >= UNBLAMED_LIMIT:
                    failed |= {one.name: make_failed_row(task, one, lost.status, lost.reason) for one in left}
        measured = {row.configuration_name: row for row in rows if row.role == Role.PROVIDER} | failed
        return [measured[one.name] for one in task.configurations] + [row for row in rows if row.role != Role.PROVIDER]

    def _find_guilty(
        self, task: Task, accused: Configuration | None, left: Sequence[Configuration], listener: Listener
    ) -> dict[str, Row]:
        """The rows of the configurations that take the worker down when they are measured alone.

        Code of one configuration can end the worker while another runs. The accused is tried first, and no other if it is
        guilty.
        """
        guilty: dict[str, Row] = {}
        for one in sorted(left, key=lambda each: each is not accused):
            self._end_worker()
            try:
                self._ask(self.ready(task), task, [one], listener)
            except WorkerFailed as lost:
                self._worker = None
                guilty[one.name] = make_failed_row(task, one, lost.status, lost.reason)
                if one is accused:
                    break
        self._end_worker()
        return guilty

    def _ask(
        self, worker: Worker, task: Task, configurations: Sequence[Configuration], listener: Listener
    ) -> list[Row]:
        """The rows of these configurations and their controls. Raises WorkerLost, also for rows that were not asked for."""
        rows: tuple[Row, ...] | None = None
        twice = False
        for event in worker.ask(task.measure_request(configurations)):
            if isinstance(event, Rows):
                twice = twice or rows is not None
                rows = event.rows
            else:
                if isinstance(event, StepBegun) and 0 <= event.index < len(configurations):
                    self._ran.add(configurations[event.index].name)
                listener.event(event, self._place)
        if rows is None or twice or not _answers(task, configurations, rows):
            worker.stop()
            raise WorkerFailed(Status.CRASHED, f"{NONSENSE}: rows that were not asked for", exited=True)
        return list(rows)


def _answers(task: Task, configurations: Sequence[Configuration], rows: Sequence[Row]) -> bool:
    """Whether the rows are those of the request: one for each configuration in order, then each control at most once."""
    wanted = [(one.provider, format_params(one.params)) for one in configurations]
    controls = [row.provider for row in rows[len(wanted) :]]
    return (
        [(row.provider, row.params) for row in rows[: len(wanted)]] == wanted
        and all(
            row.role == (Role.PROVIDER if number < len(wanted) else Role.CONTROL) for number, row in enumerate(rows)
        )
        and all(row.case.key == task.case.key and row.session == task.session for row in rows)
        and len(set(controls)) == len(controls)
        and set(controls) <= set(Control)
    )
