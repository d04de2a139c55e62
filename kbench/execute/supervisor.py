"""A worker process that is restarted when it dies: it measures one task at a time, whatever happens to the process. By itself,
it is the executor for one device.

The provider that ran when the worker died gets the row, and the others are measured in a new worker. After two deaths in a row
a configuration is not tried again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from kbench.config.plan import requirements
from kbench.errors import ConfigError, WorkerLost
from kbench.execute.executor import Executor, Finished, make_failed_row
from kbench.execute.progress import PlainProgress
from kbench.execute.worker import KILLED_LIMIT_S, NONSENSE, STOP_LIMIT_S, Worker, WorkerFailed
from kbench.protocol import (
    COMPUTE,
    RANDOM,
    RECORD,
    CallRecorded,
    CallRequest,
    Catalog,
    CatalogRequest,
    CheckRequest,
    ClockReading,
    ClockRequest,
    Configuration,
    Delivered,
    DeviceInfo,
    Fault,
    Message,
    Rows,
    StepBegun,
    Task,
    TrialRequest,
)
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text import terminal

MOST_STARTS = 2
"""How often a new worker may fail to start before the device counts as lost."""

MOST_DEATHS = 2
"""After this many deaths in a row a configuration is not tried again. One alone may depend on the size of the case."""

MOST_UNBLAMED = 2
"""How often a worker may die in a case while no provider runs, before the rest of the case is given up."""


class WorkerSupervisor(Executor):
    """Measures on `device`, one of those of a catalog; without it, on the current device of the worker. Starts no worker yet.

    `place` names the device in messages. With `candidates`, the configurations run in the worker of that supervisor, and the
    worker of this one has none of them: it draws the inputs and judges the outputs.
    """

    def __init__(
        self,
        request: CatalogRequest,
        *,
        device: DeviceInfo | None = None,
        place: str = "",
        candidates: WorkerSupervisor | None = None,
    ) -> None:
        self._request, self._device, self._place = request, device, place
        self._candidates = candidates
        self._session: int | None = None
        self._stopped = False
        self._worker: Worker | None = None
        self.reference_s = 0.0
        """How long the reference has taken."""
        self._deaths = defaultdict[str, list[tuple[str, WorkerFailed]]](list)
        """The deaths in a row of each configuration, by its name, and on which case or edge input."""

    def begin(self) -> Worker:
        """Begin to start the worker, unless there is one. Raises WorkerFailed."""
        if self._worker is None and not self._stopped:
            self._worker = Worker(self._request, self._device.variables if self._device else {})
        if self._stopped:  # another thread may have called `stop` meanwhile
            self.stop()
            raise WorkerLost("stopped")
        assert self._worker
        return self._worker

    def start(self) -> Catalog:
        """Wait until the worker has started, and return its catalog. Raises WorkerFailed."""
        worker = self.begin()
        try:
            self.catalog = worker.catalog
        except WorkerFailed:
            self._worker = None
            raise
        self.devices = [self._device or self.catalog.device]
        return self.catalog

    def stop(self, limit_s: float = STOP_LIMIT_S) -> None:
        """End the worker, and start no other. Another thread that waits for the worker gets WorkerFailed."""
        self._stopped = True
        if self._worker:
            self._worker.stop(limit_s)

    def measure(self, task: Task, display: PlainProgress) -> Finished:
        """Measure a task. Each session gets a new process. Raises WorkerLost."""
        if self._session not in (None, task.session):
            self._end_worker()
        self._session = task.session
        display.begin(task, self._place)
        rows, calls = self._rows(task, display)
        return Finished(task, rows, self.devices[0], self.catalog.machine, self._place, tuple(calls))

    def try_operator(self, task: Task) -> None:
        """See Executor. A case with small axes may stand for that of the task."""
        try:
            answers = list(self.ready(task).ask(TrialRequest(task), limit_s=task.settings.timeout_s))
        except WorkerFailed as lost:
            self._end_worker()
            what = f"a trial call of its functions on {task.case.label} failed: {lost.reason}"
            raise ConfigError.at(f"operator {task.case.operator}", what) from None
        for answer in answers:
            if isinstance(answer, Fault):
                raise ConfigError.at(answer.where, answer.message)

    def check(self, task: Task, display: PlainProgress, *, without_edges: bool = False) -> Iterator[Row]:
        """Yield a row per configuration and edge input, or for random inputs alone. A configuration that ends the worker on
        an edge input gets a row that says so, and the others follow. After two such inputs in a row the rest is not tried. An
        edge input on which the reference ends the worker is left out.

        Raises ConfigError when a function of the operator fails on random inputs, and WorkerFailed."""
        edges = () if without_edges else self.ready(task).catalog.operators[task.case.operator].edges[task.case.mode]
        finished = set[tuple[str, str]]()  # configurations and edge inputs
        declined = set[str]()
        unblamed = 0
        while left := [
            tried for tried in task.configurations if tried.name not in declined and not self._not_tried(tried, task)
        ]:
            request = CheckRequest(replace(task, configurations=tuple(left)), tuple(finished), without_edges)
            try:
                for event in self._answers(request, display):
                    for row in event.rows if isinstance(event, Rows) else ():
                        finished.add((row.configuration_name, row.edge))
                        if row.edge == RANDOM and row.status.declined:
                            declined.add(row.configuration_name)
                        self._deaths.pop(row.configuration_name, None)
                        yield row
                break
            except WorkerFailed as lost:
                self._end_worker()
                if lost.step is None:
                    unblamed += 1
                    if unblamed == MOST_UNBLAMED:
                        raise
                    continue
                edge = lost.step.edge
                if lost.step.step == COMPUTE:
                    what = f"the reference on {edge} inputs: {lost.reason}"
                    if edge == RANDOM:
                        raise ConfigError.at(f"operator {task.case.operator}", what) from None
                    terminal.note(f"{task.case.label}: left out {what}")
                    finished |= {(tried.name, edge) for tried in left}
                    continue
                guilty = left[lost.step.index]
                if (guilty.name, edge) in finished:
                    raise  # not caused by an edge input: it would happen again and again
                self._deaths[guilty.name].append((f"{edge} of {task.case.label}", lost))
                finished.add((guilty.name, edge))
                yield make_failed_row(task, guilty, lost.status, lost.reason, edge=edge)
        for tried in task.configurations:
            if not_tried := self._not_tried(tried, task):
                for edge in (RANDOM, *edges):
                    if (tried.name, edge) not in finished:
                        yield replace(not_tried, edge=edge)

    def read_clock(self, request: ClockRequest, display: PlainProgress) -> ClockReading:
        """What the clock of this worker says of a configuration that runs in the worker of the candidates, or here."""
        reading = ClockReading()
        try:
            for event in self._answers(request, display):
                reading = event if isinstance(event, ClockReading) else reading
        except WorkerLost:
            self._end_worker()
        return reading

    def _answers(self, request: Task | CheckRequest | ClockRequest, display: PlainProgress) -> Iterator[Message]:
        """What the worker answers. If the configurations run in another worker, it asks that for their calls.

        Raises ConfigError for a fault of the operator.
        """
        task = request if isinstance(request, Task) else request.task
        worker, fault = self.ready(task), None
        begun: float | None = None  # when the reference began
        for event in worker.ask(request):
            if begun is not None:
                self.reference_s += time.monotonic() - begun
            begun = time.monotonic() if isinstance(event, StepBegun) and event.step == COMPUTE else None
            if self._candidates and isinstance(event, CallRequest):
                worker.reply(self._candidates.call(event, display))
                continue
            fault = event if isinstance(event, Fault) else fault
            display.event(event, self._place)
            yield event
        if fault:
            raise ConfigError.at(fault.where, fault.message)

    def call(self, request: CallRequest, display: PlainProgress) -> Delivered:
        """What a configuration delivers on inputs of another worker. If its process dies, that is what it delivers."""
        task, [configuration] = request.task, request.task.configurations
        if not_tried := self._not_tried(configuration, task):
            return Delivered(not_tried.status, not_tried.reason)
        delivered = Delivered(Status.ERROR, "its worker process delivered nothing")
        try:
            for event in self.ready(task).ask(request):
                display.event(event, self._place)
                if isinstance(event, Delivered):
                    delivered = event
        except WorkerFailed as lost:
            self._end_worker()
            self._deaths[configuration.name].append((f"{request.edge} of {task.case.label}", lost))
            return Delivered(lost.status, lost.reason)
        self._deaths.pop(configuration.name, None)
        # code of a provider may have written the answer. But a file can always be opened, and a failure has a reason
        if request.in_file:
            delivered = replace(delivered, opened=True)
        if delivered.status and not delivered.reason:
            delivered = replace(delivered, reason="without a reason")
        return delivered

    def _not_tried(self, configuration: Configuration, task: Task) -> Row | None:
        """The row of a configuration that is not tried again; None if it is."""
        deaths = self._deaths[configuration.name][-MOST_DEATHS:]
        if len(deaths) < MOST_DEATHS:
            return None
        cases = ", ".join(f"{lost.status.value} on {case}" for case, lost in deaths)
        last = deaths[-1][1]
        reason = f"not tried again: {cases} ({last.reason})"
        return make_failed_row(task, configuration, last.status, reason, not_tried=True)

    def ready(self, task: Task) -> Worker:
        """A worker that fits the plan of the task; started if necessary. Raises WorkerLost."""
        for starts in range(1, MOST_STARTS + 1):
            try:
                self.start()
                break
            except WorkerFailed as lost:
                if starts == MOST_STARTS:
                    raise WorkerLost(lost.reason) from None
        assert self._worker
        if self._candidates is None:  # otherwise the plan names what another worker has
            check_fit(self._worker.catalog, task, self._device)
        return self._worker

    def _end_worker(self) -> None:
        """Wait until it has ended: a killed one may still hold memory of the device, and keep it busy."""
        if self._worker:
            self._worker.stop(STOP_LIMIT_S if self._stopped else KILLED_LIMIT_S)
            self._worker = None

    def _rows(self, task: Task, display: PlainProgress) -> tuple[list[Row], list[CallRecorded]]:
        """One row per configuration, then the controls; and what their calls launch."""
        failed = {tried.name: row for tried in task.configurations if (row := self._not_tried(tried, task))}
        rows, calls = list[Row](), list[CallRecorded]()
        unblamed, stateful = 0, False
        while left := [configuration for configuration in task.configurations if configuration.name not in failed]:
            try:
                rows = []
                for event in self._answers(replace(task, configurations=tuple(left)), display):
                    if isinstance(event, Rows):
                        # code of a provider may have written another case, of which less is asked
                        rows, stateful = [replace(row, case=task.case) for row in event.rows], event.stateful
                    elif isinstance(event, CallRecorded):
                        calls.append(event)
                break
            except WorkerFailed as lost:
                self._end_worker()
                if lost.step and lost.step.step == RECORD and task.settings.kernels:
                    again = "measuring the case again without recording which kernels a call launches"
                    terminal.note(f"{task.case.label}: {lost.step.name}: {lost.reason}; {again}")
                    task = replace(task, settings=task.settings.model_copy(update={"kernels": False}))
                    continue
                guilty = left[lost.step.index : lost.step.index + 1] if lost.step else []
                unblamed += not guilty
                reason = lost.reason if guilty else f"{lost.reason} while no provider was running"
                for configuration in left if unblamed == MOST_UNBLAMED else guilty:
                    failed[configuration.name] = make_failed_row(task, configuration, lost.status, reason)
                    self._deaths[configuration.name].append((task.case.label, lost))
        if stateful:
            self._end_worker()
        for configuration in left:
            self._deaths.pop(configuration.name, None)
        measured = {row.configuration_name: row for row in rows if row.of_provider} | failed
        of_providers = [
            measured.get(configuration.name) or make_failed_row(task, configuration, Status.CRASHED, NONSENSE)
            for configuration in task.configurations
        ]
        return of_providers + [row for row in rows if not row.of_provider], calls


def check_fit(catalog: Catalog, task: Task, device: DeviceInfo | None) -> None:
    """Raise WorkerLost if a worker has another device or other code than the plan was made for. `device` is the one that it
    must use, if the plan names one."""
    planned = dict(task.requirements)
    now = requirements(catalog, task.case.operator, catalog.providers(task.case.operator))
    if device:
        planned["the UUID of the device"], now["the UUID of the device"] = device.uuid, catalog.device.uuid
    for name, value in planned.items():
        if now.get(name) != value:
            raise WorkerLost(
                f"{name} differs from that of the plan: {now.get(name, 'none')} instead of {value}; undo that and continue "
                "with --resume, or start a new run"
            )
