"""Runs inside a dask worker, and measures there for runs on other hosts. cluster.py calls its functions through dask.

A dask worker keeps a `WorkerSession` for each run. That keeps one measuring process per session of the run: to start a
process takes longer than to measure a short case.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import distributed

from kbench.errors import DeviceGone, WorkerLost
from kbench.execute.executor import Finished
from kbench.execute.executors.code_identity import RunFiles, compare_code, identify_code
from kbench.execute.lock import IN_USE, acquire_lock, device_key
from kbench.execute.plan import Task
from kbench.execute.supervision.failure_history import FailureHistory
from kbench.execute.supervision.fit import Misfit
from kbench.execute.supervision.supervisor import WorkerSupervisor
from kbench.execute.worker.starting import PluginFiles
from kbench.protocol import Catalog, Message

IDLE_LIMIT_S = 60.0
"""How long idle measuring processes are kept. The run may have died without a message."""

_sessions: dict[str, WorkerSession] = {}
"""By the ticket of their run."""


@dataclass(frozen=True)
class Registration:
    """A worker's answer to a run that asks it to take part.

    differences  how its code differs from that of the run; the run refuses the worker when there are any
    resources    names of the resources that the worker declares to dask
    """

    differences: list[str]
    resources: list[str]


@dataclass
class JobResult:
    """The result of a job.

    worker    address of the dask worker; empty when it died
    finished  the tasks of the job
    notes     lines for the user
    gone      why the worker can measure nothing more; then `finished` is empty
    fits      False if it has another device or other code than the plan was made for: then no device was lost
    """

    worker: str
    finished: list[Finished] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    gone: str = ""
    fits: bool = True


async def register(ticket: str, files: RunFiles, wanted: Mapping[str, str], *, dask_worker: Any) -> Registration:
    """Let a worker take part in a run if it has the same code.

    The ticket becomes a resource of the worker in dask. Jobs require it, so they reach registered workers only. A worker
    has it once, so it measures one case at a time.
    """
    found = compare_code(wanted, identify_code(files))
    if not found:
        _sessions[ticket] = WorkerSession(dask_worker.address, [str(files.find(name)) for name in files.plugins])
        await dask_worker.set_resources(**{ticket: 1})
    return Registration(found, list(dask_worker.state.total_resources))


async def release(ticket: str, *, dask_worker: Any) -> None:
    """End a worker's part in a run. Only the scheduler learns that the ticket is used up: jobs that it has sent already
    still arrive, and are given back at once."""
    if session := _sessions.pop(ticket, None):
        spent = {**dask_worker.state.total_resources, ticket: 0}
        await dask_worker.scheduler.set_resources(resources=spent, worker=dask_worker.contact_address)
        threading.Thread(target=session.stop).start()  # may take seconds, during which the event loop must go on


def report_catalog(ticket: str) -> tuple[str, Catalog | None, str]:
    """The worker's address with its catalog, or with the reason why it has none."""
    session = _sessions[ticket]
    try:
        return session.worker, session.report_catalog(), ""
    except (WorkerLost, DeviceGone) as lost:
        return session.worker, None, str(lost)


def measure(ticket: str, job: bytes) -> JobResult:
    """Measure the tasks of a job, one after another. The job is pickled, because dask would search a list for futures."""
    session = _sessions.get(ticket)
    tasks: list[Task] = pickle.loads(job)
    return session.measure(tasks) if session else JobResult(distributed.get_worker().address, gone="released")


class WorkerSession:
    """What a dask worker keeps for one run: a supervisor per session of the run."""

    def __init__(self, worker: str, plugins: list[str]) -> None:
        self.worker, self._plugins = worker, PluginFiles(plugins)
        self._supervisors: dict[int, WorkerSupervisor] = {}
        self._history = FailureHistory()
        self._notes: list[str] = []
        self._stopped = False
        self._told: set[str] = set()
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def report_catalog(self) -> Catalog:
        with self._busy():
            return self._supervisor(0).start()

    def measure(self, tasks: list[Task]) -> JobResult:
        with self._busy():
            self._notes = []
            result, listener = JobResult(self.worker, notes=self._notes), _Notes(self._note)
            try:
                for task in tasks:
                    supervisor = self._supervisor(task.session)
                    device = supervisor.ready(task).catalog.device
                    with acquire_lock(device_key(device), device.name, wait=True, note=self._note_wait):
                        result.finished.append(supervisor.measure(task, listener))
            except Misfit as misfit:
                result.finished, result.gone, result.fits = [], misfit.there, False
            except DeviceGone as gone:
                result.finished, result.gone = [], str(gone)
        return result

    def stop(self) -> None:
        self._stopped = True
        for supervisor in list(self._supervisors.values()):
            supervisor.stop()

    def _supervisor(self, session: int) -> WorkerSupervisor:
        if session not in self._supervisors:
            place = self.worker.partition("://")[2]
            self._supervisors[session] = WorkerSupervisor(self._plugins, self._note, place=place, history=self._history)
        if self._stopped:
            self.stop()
        return self._supervisors[session]

    def _note_wait(self, line: str) -> None:
        """Tell the user once that workers wait for each other, and once what else there is to say about the lock: workers that
        share a device take it at every case."""
        told = f"takes turns on a shared device: {line.partition('; ')[0]}" if IN_USE in line else line
        kind = IN_USE if IN_USE in line else line
        if kind not in self._told:
            self._notes.append(told)
        self._told.add(kind)

    def _note(self, line: str) -> None:
        self._notes.append(line)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """One caller at a time. Starts the idle timer at the end."""
        with self._lock:
            if self._timer:
                self._timer.cancel()
            try:
                yield
            finally:
                self._timer = threading.Timer(IDLE_LIMIT_S, self._end_idle)
                self._timer.daemon = True
                self._timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            for supervisor in self._supervisors.values():
                supervisor.stop()
            self._supervisors = {}


class _Notes:
    """A listener that keeps notes only. Nothing else is sent over the network."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note

    def begin(self, task: Task, place: str) -> None:
        return None

    def event(self, event: Message, place: str) -> None:
        return None
