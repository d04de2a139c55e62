"""A worker process that is restarted when it dies: it measures one task at a time, whatever happens to the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from kbench.errors import ConfigError, ConfigIssue, DeviceGone, SourceLocation
from kbench.execute.executor import Finished, Listener, make_failed_row
from kbench.execute.plan import Task
from kbench.execute.supervision.alone import Alone, count_workers
from kbench.execute.supervision.blame import BLAMED_LIMIT, UNBLAMED_LIMIT, may_be_anothers
from kbench.execute.supervision.failure_history import FailureHistory
from kbench.execute.supervision.fit import check_fit
from kbench.execute.supervision.wall_time import seen_from_outside
from kbench.execute.worker.starting import PluginFiles
from kbench.execute.worker.starting import start as start_worker
from kbench.execute.worker.template import Template, start_template
from kbench.execute.worker.worker_failed import WorkerFailed
from kbench.execute.worker.worker_process import IDLE, NONSENSE, Worker
from kbench.protocol import (
    RANDOM,
    RECORD,
    CallRecorded,
    Catalog,
    Configuration,
    DeviceInfo,
    EdgeResult,
    Rows,
    StepBegun,
    StepEnded,
    TrialFailed,
)
from kbench.results.row import Row
from kbench.results.vocabulary import Role, Status
from kbench.text.printable import REASON_LIMIT, printable

START_LIMIT = 2
"""How often a new worker may fail to start before the device counts as lost."""


class WorkerSupervisor:
    """Measures on a device of the catalog, or on the worker's current device without one. Starts no worker yet.

    `place` names the device in messages, and `note` receives the workers' notes. `history` is shared by supervisors that
    measure the sessions of the same cases.
    """

    def __init__(
        self,
        plugins: PluginFiles,
        note: Callable[[str], None],
        *,
        device: DeviceInfo | None = None,
        place: str = "",
        history: FailureHistory | None = None,
    ) -> None:
        self._plugins, self._note, self._device, self._place = plugins, note, device, place
        self._session: int | None = None
        self._stopped = False
        self._worker: Worker | None = None
        self._last: Worker | None = None  # that was started
        self._template: Template | None = None
        self._catalog: Catalog | None = None  # of the last worker
        self._history = history or FailureHistory()
        self._alone = Alone(self._start_another)
        self._ran: set[str] = set()  # names of the configurations that have run in the worker
        self._calls: list[CallRecorded] = []  # of the task
        self._checked: set[str] = set()  # names of those that a worker has built and checked on this case

    def __enter__(self) -> WorkerSupervisor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Catalog:
        """Start the worker, unless there is one, and return its catalog. Raises WorkerLost."""
        if self._worker is None:
            if self._last:
                self._last.wait_for_end(lambda: self._stopped)
            if self._stopped:
                raise DeviceGone("stopped")
            self._template = self._template or start_template(self._variables)
            worker = start_worker(self._plugins, self._note, self._variables, self._template)
            if self._stopped:
                worker.stop()
                raise DeviceGone("stopped")
            self._worker, self._last, self._ran, self._catalog = worker, worker, set(), worker.catalog
        return self._worker.catalog

    def _start_another(self, task: Task) -> Worker:
        """Start a worker beside the one that measures. Raises WorkerLost, and DeviceGone when it does not fit the plan."""
        worker = start_worker(self._plugins.copy(), variables=self._variables, template=self._template)
        try:
            check_fit(worker.catalog, task, self._device)
        except DeviceGone:
            worker.stop()
            raise
        return worker

    @property
    def _variables(self) -> Mapping[str, str]:
        return self._device.variables if self._device else {}

    def measure(self, task: Task, listener: Listener) -> Finished:
        """Measure a task. Each session gets new processes.

        When a provider takes the worker down, it gets its row, and all others are measured in a new worker, so that they
        stay comparable. When a second provider does so in the same case, those that have not run yet are tried alone first
        (see alone.py), and so is, in its next case, a provider that took the worker down in its last one. After two such
        cases in a row it is not tried again, unless the task says so.

        A worker that was killed from outside may be no provider's fault: the provider that ran is blamed only when it
        happens again. A worker that ended by itself while it timed may be the fault of any provider that has run in it:
        each is measured alone, to find out.

        Raises DeviceGone.
        """
        if self._session not in (None, task.session):
            self._end_processes()
        self._session, self._calls = task.session, []
        listener.begin(task, self._place)
        rows = self._rows(task, listener)
        catalog = self._catalog or self.ready(task).catalog
        return Finished(
            task=task,
            rows=rows,
            device=self._device or catalog.device,
            machine=catalog.machine,
            place=self._place,
            calls=tuple(self._calls),
        )

    def try_operator(self, task: Task, *, whole: bool = False) -> None:
        """Call the operator's own functions on the case of a task, or on one with small axes unless `whole`. Raises ConfigError
        when one fails."""
        try:
            found = list(self.ready(task).ask(task.trial_request(whole=whole), limit_s=task.settings.timeout_s))
        except WorkerFailed as lost:
            self._worker = None
            why = lost.reason.replace(f" {IDLE}", "")
            what = f"a trial call of its functions on {task.case.label} failed: {why}"
            raise ConfigError([ConfigIssue(SourceLocation(f"operator {task.case.operator}"), what)]) from None
        if faults := [
            ConfigIssue(SourceLocation(event.where), event.what) for event in found if isinstance(event, TrialFailed)
        ]:
            raise ConfigError(faults)

    def check(self, task: Task, listener: Listener) -> Iterator[tuple[Configuration, EdgeResult]]:
        """Yield a result per configuration and edge input. A configuration that kills the worker on an edge input gets a
        result that says so, and the others follow. After two such inputs in a row the rest is not tried, unless the task
        says so."""
        for one in task.configurations:
            if one.error:
                yield one, EdgeResult(0, RANDOM, Status.ERROR, one.error)
                continue
            done: list[str] = []
            while True:
                if not task.keep_trying and (given_up := self._history.give_up(one)):
                    operator = self.ready(task).catalog.operators[task.case.operator]
                    for edge in (RANDOM, *operator.edges[task.case.mode]):
                        if edge not in done:
                            yield one, EdgeResult(0, edge, *given_up, not_tried=True)
                    break
                edge = RANDOM
                try:
                    for event in self.ready(task).ask(task.check_request(one, done)):
                        listener.event(event, self._place)
                        if isinstance(event, StepBegun):
                            edge = event.edge
                        elif isinstance(event, EdgeResult):
                            done.append(event.edge)
                            self._history.clear(one)
                            yield one, replace(event, reason=printable(event.reason, REASON_LIMIT))
                    break
                except WorkerFailed as lost:
                    self._worker = None
                    if edge in done:
                        raise  # not caused by an edge input: it would happen again and again
                    done.append(edge)
                    self._history.add(one, f"{edge} of {task.case.label}", lost)
                    yield one, EdgeResult(0, edge, lost.status, lost.reason)

    def stop(self) -> None:
        """End the worker, and start no other. Another thread that waits for the worker gets WorkerLost."""
        self._stopped = True
        self._alone.stop()
        self._end_processes()

    def _end_processes(self) -> None:
        self._end_worker()
        if self._last:
            self._last.wait_for_end(lambda: self._stopped)  # without the template nobody knows whether it has ended
        if self._template:
            self._template.stop()
            self._template = None

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
        check_fit(self._worker.catalog, task, self._device)
        return self._worker

    def _rows(self, task: Task, listener: Listener) -> list[Row]:
        """One row per configuration, then the controls."""
        failed = {
            one.name: make_failed_row(task, one, Status.ERROR, one.error) for one in task.configurations if one.error
        }
        if not task.keep_trying:
            for one in task.configurations:
                if given_up := self._history.give_up(one):
                    failed[one.name] = make_failed_row(task, one, *given_up, not_tried=True)
        tried = [one for one in task.configurations if one.name not in failed]
        suspects = [one for one in tried if self._history.failed_last(one)]
        losses = self._try_alone(task, suspects, "crashed or timed out in the previous case", listener)
        rows = self._measure_others(task, tried, losses, listener)
        for one in tried:
            if lost := losses.get(one.name):
                failed[one.name] = make_failed_row(task, one, lost.status, lost.reason)
                self._history.add(one, task.case.label, lost)
            else:
                self._history.clear(one)
        measured = {row.configuration_name: row for row in rows if row.role == Role.PROVIDER} | failed
        return [measured[one.name] for one in task.configurations] + [row for row in rows if row.role != Role.PROVIDER]

    def _measure_others(
        self, task: Task, tried: Sequence[Configuration], losses: dict[str, WorkerFailed], listener: Listener
    ) -> list[Row]:
        """The rows of the configurations that are not in `losses`, and their controls. Adds to `losses` the ones that take
        the worker down."""
        self._checked = set()
        proven = set(losses)
        spared: set[str] = set()
        nobody_alone = False  # whether no configuration takes the worker down alone
        blamed = unblamed = 0
        while left := [one for one in tried if one.name not in losses]:
            try:
                return self._ask(self.ready(task), task, left, listener)
            except WorkerFailed as lost:
                self._worker = None
                running = left[lost.index] if lost.index is not None and 0 <= lost.index < len(left) else None
                name = running.name if running else ""  # "": no provider was running
                if lost.step == RECORD and task.settings.kernels:
                    again = "measuring the case again without recording which kernels a call launches"
                    listener.note(f"{task.case.label}: {name}: {lost.reason}; {again}")
                    task = replace(task, settings=replace(task.settings, kernels=False))
                    continue
                if lost.killed and name not in spared:
                    spared.add(name)
                    if not self._stopped:
                        listener.note(f"{task.case.label}: the worker was {lost.reason}; trying once more")
                    continue
                others = self._ran - {running.name} if running else len(left) > 1
                if others and not nobody_alone and may_be_anothers(lost, tried_alone=blamed >= BLAMED_LIMIT):
                    guilty = self._find_guilty(task, running, left, listener)
                    losses |= guilty
                    nobody_alone = not guilty
                    if guilty:
                        continue
                if running is None:
                    unblamed += 1
                    if unblamed >= UNBLAMED_LIMIT:
                        losses |= dict.fromkeys([one.name for one in left], lost)
                    continue
                losses[running.name] = lost
                blamed += 1
                if blamed == BLAMED_LIMIT:
                    sure = proven | {name for name, found in losses.items() if not found.exited}
                    doubtful = [one for one in tried if one.name not in self._checked | sure]
                    if len(doubtful) > 1:  # a single one is tried in the next worker anyway
                        why = f"are in doubt after the worker was lost {BLAMED_LIMIT} times"
                        alone = self._try_alone(task, doubtful, why, listener)
                        for one in doubtful:
                            losses.pop(one.name, None)
                        losses |= alone
        return []

    def _try_alone(
        self, task: Task, configurations: Sequence[Configuration], why: str, listener: Listener
    ) -> dict[str, WorkerFailed]:
        """How configurations take their worker down when each has one for itself. `why` completes a note."""
        if not configurations:
            return {}
        catalog = self.ready(task).catalog
        count = f"{len(configurations)} of {len(task.configurations)}"
        listener.note(f"{task.case.label}: {count} configurations {why}; trying each of them alone first")
        return self._alone.try_each(task, configurations, count_workers(catalog, task))

    def _find_guilty(
        self, task: Task, accused: Configuration | None, left: Sequence[Configuration], listener: Listener
    ) -> dict[str, WorkerFailed]:
        """The configurations that take the worker down when they are measured alone. Code of one can end the worker while
        another runs. The accused is tried first, and no other if it is guilty."""
        guilty: dict[str, WorkerFailed] = {}
        for one in sorted(left, key=lambda each: each is not accused):
            self._end_worker()
            try:
                self._ask(self.ready(task), task, [one], listener)
            except WorkerFailed as lost:
                self._worker = None
                guilty[one.name] = lost
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
        name = step = ""
        answers = worker.ask(task.measure_request(configurations))
        for event in seen_from_outside(answers, task.settings.warmup_ms):
            if isinstance(event, Rows):
                twice = twice or rows is not None
                rows = event.rows
            else:
                if isinstance(event, StepBegun) and 0 <= event.index < len(configurations):
                    name, step = configurations[event.index].name, event.step
                    self._ran.add(name)
                elif isinstance(event, StepEnded) and step == "check":
                    self._checked.add(name)
                elif isinstance(event, CallRecorded):
                    self._calls.append(event)
                listener.event(event, self._place)
        if rows is None or twice or not task.is_answered_by(configurations, rows):
            worker.stop()
            raise WorkerFailed(Status.CRASHED, f"{NONSENSE}: rows that were not asked for", exited=True)
        return list(rows)
