"""Measures a plan on the workers of a dask cluster: dask finds free workers, and runs the job of a dead one again elsewhere.

A job is a case with all its sessions, so that they share a device; with `--spread` it is one session of a case. The rows of
a job arrive together. When its worker dies, none of them has arrived, so no row is there twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed

from kbench.errors import DeviceGone, ExecutionError, WorkerLost
from kbench.execute.executor import Finished, Listener, make_failed_row
from kbench.execute.lock import device_lock, hold
from kbench.execute.supervisor import WorkerSupervisor
from kbench.files import source_text
from kbench.protocol import Catalog, CatalogRequest, DeviceInfo, Message, Task
from kbench.results.case import Case
from kbench.results.stamps import digest
from kbench.results.vocabulary import Status
from kbench.text.words import plural

GPU = "GPU"
"""The resource that dask workers with a GPU usually declare (`--resources GPU=1`). If any declares it, each job takes one."""

SEARCH_S = 1.0
"""How often to look for new workers."""

ANSWER_LIMIT_S = 12.0
"""How long the scheduler may take to answer."""

WORKER_LIMIT_S = 3600.0
"""How long to wait while there is no worker, which a queueing system may start, and for what a finished job returns."""

IDLE_LIMIT_S = 60.0
"""How long a dask worker keeps measuring processes without work. Their run may have ended."""

LOST = "the scheduler is gone, or a worker fails; continue with --resume, with this scheduler or another"


@dataclass(frozen=True)
class Run:
    """A run, as a dask worker knows it. Each plug-in has its path from the working folder, its full path and a hash."""

    name: str
    plugins: list[tuple[str, str, str]]


@dataclass
class Answer:
    """What a dask worker returns for a job. If it can measure nothing more, `gone` says why, and nothing is finished."""

    worker: str
    finished: list[Finished] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    catalog: Catalog | None = None
    gone: str = ""


class Cluster:
    """Connects to a scheduler and waits for a first worker. Raises ExecutionError."""

    scope = "cluster"
    devices: Sequence[DeviceInfo] = ()  # a dask worker locks its device itself

    def __init__(self, address: str, plugins: Sequence[str], note: Callable[[str], None], *, spread: bool) -> None:
        self._address, self._spread = address, spread
        files = [(os.path.relpath(path), path, digest(source_text(Path(path)))) for path in plugins]
        self._run = Run(uuid.uuid4().hex, files)
        self._gone: set[str] = set()  # workers that can measure nothing more
        self._resources: dict[str, int] = {}
        self._client = self._connect()
        try:
            self.catalog = self._first_catalog(note)
            self.places = sorted(self._wait_for_workers(note))
        except BaseException:
            self.stop()
            raise

    def _connect(self) -> Any:
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # kbench reports the same events itself
        with self._failures("no dask scheduler answers; check the address, or start one with `dask scheduler`"):
            asyncio.run(asyncio.wait_for(_ask_who(self._address), 2 * ANSWER_LIMIT_S))
            return distributed.Client(self._address, timeout=ANSWER_LIMIT_S, set_as_default=False, name="kbench")

    def _first_catalog(self, note: Callable[[str], None]) -> Catalog:
        """The catalog of a worker: the plan is made from it."""
        while True:
            future = self._submit(self._wait_for_workers(note), ())
            if catalog := self._answer(future, note).catalog:
                return catalog

    def try_operator(self, task: Task) -> None:
        """Nothing to do: each case reports a fault of the operator where it is measured."""

    def start(self) -> None:
        """Nothing to do: a dask worker starts its measuring processes with its first case."""

    def run(self, tasks: Sequence[Task], measured_on: Mapping[Case, str], listener: Listener) -> Iterator[Finished]:
        """dask has one job per worker at a time: it gives up a job after some deaths of workers that had it, also if the job
        only waited there."""
        jobs: dict[Any, list[Task]] = {}
        for task in tasks:
            jobs.setdefault((task.case, task.session if self._spread else 0), []).append(task)
        waiting, running = deque(jobs.values()), dict[Any, list[Task]]()
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        while waiting or running:
            workers = self._wait_for_workers(listener.note)
            while waiting and len(running) < len(workers):
                future = self._submit(workers, waiting[0])
                running[future] = waiting.popleft()
                future.add_done_callback(done.put)
            with suppress(queue.Empty):
                future = done.get(timeout=SEARCH_S)
                job = running.pop(future)
                answer = self._answer(future, listener.note, job)
                yield from answer.finished
                if answer.gone:
                    waiting.appendleft(job)

    def stop(self) -> None:
        with suppress(Exception):  # of many kinds, if the scheduler is gone
            self._client.close(timeout=1)

    def _wait_for_workers(self, note: Callable[[str], None]) -> list[str]:
        """The workers that get jobs, as soon as there are any: those that declare a GPU, or all if none does."""
        deadline = 0.0
        while True:
            with self._failures(LOST):
                if self._client.status != "running":
                    raise OSError("the connection was lost")  # dask would try for a while to get it back
                identity = self._client.scheduler.identity
                workers_by_address = self._client.sync(identity, callback_timeout=ANSWER_LIMIT_S)["workers"]
            gpus = [worker for worker in workers_by_address if GPU in workers_by_address[worker]["resources"]]
            self._resources = {GPU: 1} if gpus else {}
            if workers := [worker for worker in gpus or workers_by_address if worker not in self._gone]:
                return workers
            if not deadline:
                note(f"{self._address} has no worker; waiting up to an hour for one (Ctrl-C gives up)")
                deadline = time.monotonic() + WORKER_LIMIT_S
            elif time.monotonic() > deadline:
                raise ExecutionError(f"{self._address}: no worker came; start one, and continue with --resume")
            time.sleep(SEARCH_S)

    def _submit(self, workers: list[str], job: Sequence[Task]) -> Any:
        """The future of a job on one of these workers, or on another if they all die. The job is pickled, because dask would
        look for futures in it."""
        options = {"workers": workers, "allow_other_workers": True, "resources": self._resources, "pure": False}
        return self._client.submit(measure, self._run, pickle.dumps(job), **options)

    def _answer(self, future: Any, note: Callable[[str], None], job: Sequence[Task] = ()) -> Answer:
        """The answer to a job; if the worker that has it dies, dask measures the job again."""
        try:
            with self._failures(LOST):
                answer: Answer = future.result(timeout=WORKER_LIMIT_S)
        except distributed.scheduler.KilledWorker as killed:
            reason = f"dask gave this case up, after {plural(killed.allowed_failures + 1, 'worker')} died with it"
            return Answer("", [self._crashed(task, reason) for task in job])
        for line in answer.notes:
            note(f"{answer.worker}: {line}")
        if answer.gone and answer.worker not in self._gone:
            note(f"{answer.worker} gets no more cases: {answer.gone}")
            self._gone.add(answer.worker)
        return answer

    def _crashed(self, task: Task, reason: str) -> Finished:
        rows = [make_failed_row(task, configuration, Status.CRASHED, reason) for configuration in task.configurations]
        return Finished(task, rows, DeviceInfo("", ""), self.catalog.machine)

    @contextmanager
    def _failures(self, event: str) -> Iterator[None]:
        """Raise ExecutionError for the many exceptions of dask, and for those of a worker that has another kbench or none."""
        try:
            yield
        except distributed.scheduler.KilledWorker:
            raise
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            raise ExecutionError(f"{self._address}: {event} ({type(error).__name__}: {first})") from error


async def _ask_who(address: str) -> None:
    """Raise an exception unless a scheduler answers. A client would wait long for any other program at its address."""
    security = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, timeout=ANSWER_LIMIT_S, connection_args=security) as scheduler:
        await scheduler.identity()


# -- what runs on a dask worker


def measure(run: Run, job: bytes) -> Answer:
    return _measurers.setdefault(run.name, Measurer(run)).measure(pickle.loads(job))


class Measurer:
    """What a dask worker keeps of a run: a measuring process per session number, as to start one takes longer than to measure
    a short case. It is the Listener of these processes."""

    def __init__(self, run: Run) -> None:
        self._run, self._worker = run, distributed.get_worker().address
        self._supervisors: dict[int, WorkerSupervisor] = {}
        self._notes: list[str] = []
        self._busy = threading.Lock()
        self._idle = threading.Timer(IDLE_LIMIT_S, self._end)

    def begin(self, task: Task, place: str) -> None:
        return None

    def event(self, event: Message, place: str) -> None:
        return None

    def note(self, line: str) -> None:
        self._notes.append(line)

    def measure(self, tasks: Sequence[Task]) -> Answer:
        """Measure the tasks of a job, one after another. A job without tasks asks for the catalog. Of a worker with other code
        or another type of device than the plan was made for, the supervisor says that it is gone."""
        self._idle.cancel()
        with self._busy:
            self._notes = []
            answer = Answer(self._worker, notes=self._notes)
            try:
                if not tasks:
                    answer.catalog = self._supervisor(0).start()
                for task in tasks:
                    supervisor = self._supervisor(task.session)
                    device = supervisor.ready(task).catalog.device
                    with hold(device_lock(device), device.name, wait=True, note=lambda line: None):
                        answer.finished.append(supervisor.measure(task, self))
            except (WorkerLost, DeviceGone) as gone:
                answer.finished, answer.gone = [], str(gone)
            self._idle = threading.Timer(IDLE_LIMIT_S, self._end)
            self._idle.daemon = True
            self._idle.start()
        return answer

    def _supervisor(self, session: int) -> WorkerSupervisor:
        if session not in self._supervisors:
            request = CatalogRequest(tuple(_same_file(*plugin) for plugin in self._run.plugins))
            self._supervisors[session] = WorkerSupervisor(request, self.note, place=self._worker)
        return self._supervisors[session]

    def _end(self) -> None:
        with self._busy:
            for supervisor in self._supervisors.values():
                supervisor.stop()
            self._supervisors = {}


_measurers: dict[str, Measurer] = {}
"""By the name of the run."""


def _same_file(near: str, full: str, sha: str) -> str:
    """The path of a plug-in on this host: in the working folder of the dask worker, otherwise where the run has it. Raises
    DeviceGone if it is another file there."""
    path = Path(near if Path(near).exists() else full)
    if digest(source_text(path)) != sha:
        raise DeviceGone(f"plug-in {path} differs there, or is missing")
    return str(path)
