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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed

from kbench.errors import DeviceGone, ExecutionError, KbenchError, WorkerLost
from kbench.execute.executor import Finished, Listener, make_failed_row
from kbench.execute.lock import device_lock, hold
from kbench.execute.progress import PlainProgress
from kbench.execute.supervisor import WorkerSupervisor
from kbench.files import source_text
from kbench.protocol import Catalog, CatalogRequest, DeviceInfo, Task
from kbench.results.case import Case
from kbench.results.stamps import digest
from kbench.results.vocabulary import Status
from kbench.text.words import plural

GPU = "GPU"
"""The resource that dask workers with a GPU usually declare (`--resources GPU=1`). If any declares it, each job takes one."""

SEARCH_S = 1
"""How often to look for new workers."""

ANSWER_LIMIT_S = 12
"""How long the scheduler may take to answer."""

WORKER_LIMIT_S = 3600
"""How long to wait while there is no worker, which a queueing system may start, and for what a finished job returns."""

IDLE_LIMIT_S = 60
"""How long a dask worker keeps measuring processes without work. Their run may have ended."""

LOST = "the scheduler is gone, or a worker fails; continue with --resume, with this scheduler or another"

Job = tuple[Task, ...]
"""A case with all its sessions; without tasks, the question what exists on a worker."""


@dataclass
class Answer:
    """What a dask worker returns for a job: the catalog, or what it has measured. If it can do neither, `gone` says why."""

    worker: str
    catalog: Catalog | None = None
    finished: list[Finished] = field(default_factory=list)
    gone: str = ""


class Cluster:
    """Connects to a scheduler and waits for a first worker. Raises ExecutionError."""

    scope = "cluster"
    devices: Sequence[DeviceInfo] = ()  # a dask worker locks its device itself

    def __init__(self, address: str, plugins: Sequence[str], note: Callable[[str], None], *, spread: bool) -> None:
        self._address, self._spread = address, spread
        self._name = uuid.uuid4().hex
        self._plugins = [(os.path.relpath(path), path, digest(source_text(Path(path)))) for path in plugins]
        self._gone: set[str] = set()  # workers that can measure nothing
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # kbench reports the same events itself
        with self._failures("no dask scheduler answers; check the address, or start one with `dask scheduler`"):
            asyncio.run(asyncio.wait_for(_ask_who(address), 2 * ANSWER_LIMIT_S))
            self._client = distributed.Client(address, timeout=ANSWER_LIMIT_S, set_as_default=False, name="kbench")
        try:
            [answer] = self._answers([()], note)
            assert answer.catalog
            self.catalog: Catalog = answer.catalog
            self.places = self._workers(note)
        except BaseException:
            self.stop()
            raise

    def try_operator(self, task: Task) -> None:
        """Nothing to do: each case reports a fault of the operator where it is measured."""

    def run(self, tasks: Sequence[Task], measured_on: Mapping[Case, str], listener: Listener) -> Iterator[Finished]:
        jobs: dict[tuple[Case, int], tuple[Task, ...]] = {}
        for task in tasks:
            key = (task.case, task.session if self._spread else 0)
            jobs[key] = (*jobs.get(key, ()), task)
        for answer in self._answers(list(jobs.values()), listener.note):
            yield from answer.finished

    def _answers(self, jobs: list[Job], note: Callable[[str], None]) -> Iterator[Answer]:
        """The answers to jobs. dask has one job per worker at a time: it gives up a job after some deaths of workers that had
        it, also if the job only waited there."""
        running: dict[Any, Job] = {}
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._failures(LOST):
            while jobs or running:
                workers = self._workers(note)
                while jobs and len(running) < len(workers):
                    job = jobs.pop(0)
                    future = self._submit(workers, job)
                    running[future] = job
                    future.add_done_callback(done.put)
                with suppress(queue.Empty):
                    future = done.get(timeout=SEARCH_S)
                    job = running.pop(future)
                    answer = self._answer(future, job)
                    if not answer.gone:
                        yield answer
                        continue
                    jobs.insert(0, job)
                    if answer.worker not in self._gone:  # dask may move a job there when another worker dies
                        note(f"{answer.worker} gets no more cases: {answer.gone}")
                        self._gone.add(answer.worker)

    def stop(self) -> None:
        with suppress(Exception):  # of many kinds, if the scheduler is gone
            self._client.close(timeout=1)

    def _workers(self, note: Callable[[str], None]) -> list[str]:
        """The workers that get jobs, as soon as there are any: those that declare a GPU, or all if none does."""
        for second in range(WORKER_LIMIT_S):
            identity = self._client.scheduler.identity
            resources = {
                address: worker["resources"]
                for address, worker in self._client.sync(identity, callback_timeout=ANSWER_LIMIT_S)["workers"].items()
            }
            self._resources = {GPU: 1} if any(GPU in declared for declared in resources.values()) else {}
            workers = {address for address, declared in resources.items() if self._resources.keys() <= declared.keys()}
            if usable := workers - self._gone:
                return sorted(usable)
            if second == 0:
                note(f"{self._address} has no worker; waiting up to an hour for one (Ctrl-C gives up)")
            time.sleep(SEARCH_S)
        raise ExecutionError(f"{self._address}: no worker came; start one, and continue with --resume")

    def _submit(self, workers: list[str], job: Sequence[Task]) -> Any:
        """The future of a job on one of these workers, or on another if they all die. The job is pickled, because dask would
        look for futures in it."""
        options = {"workers": workers, "allow_other_workers": True, "resources": self._resources, "pure": False}
        return self._client.submit(measure, self._name, self._plugins, pickle.dumps(job), **options)

    def _answer(self, future: Any, job: Job) -> Answer:
        try:
            answer: Answer = future.result(timeout=WORKER_LIMIT_S)
            return answer
        except distributed.scheduler.KilledWorker as killed:
            if not job:
                raise
            reason = f"dask gave this case up, after {plural(killed.allowed_failures + 1, 'worker')} died with it"
        finished = []
        for task in job:
            rows = [
                make_failed_row(task, configuration, Status.CRASHED, reason) for configuration in task.configurations
            ]
            finished.append(Finished(task, rows, DeviceInfo("", ""), self.catalog.machine))
        return Answer("", finished=finished)

    @contextmanager
    def _failures(self, event: str) -> Iterator[None]:
        """Raise ExecutionError for the many exceptions of dask, and for those of a worker that has another kbench or none."""
        try:
            yield
        except KbenchError:
            raise
        except Exception as error:
            first = (str(error).splitlines() or [""])[0]
            raise ExecutionError(f"{self._address}: {event} ({type(error).__name__}: {first})") from error


async def _ask_who(address: str) -> None:
    """Raise an exception unless a scheduler answers. A client would wait for ever for any other program at its address."""
    security = distributed.Security().get_connection_args("client")
    async with distributed.rpc(address, timeout=ANSWER_LIMIT_S, connection_args=security) as scheduler:
        await scheduler.identity()


# -- what runs on a dask worker

_supervisors: dict[tuple[str, int], WorkerSupervisor] = {}
"""A measuring process for each session of a run: to start one takes longer than to measure a short case."""

_busy = threading.Lock()
_idle = threading.Timer(0, lambda: None)


def measure(run: str, plugins: list[tuple[str, str, str]], job: bytes) -> Answer:
    """Measure the tasks of a job, one after another; without tasks, read the catalog. A worker with other code or another type
    of device than the plan was made for is gone. Notes go to the log of the dask worker."""
    global _idle
    _idle.cancel()
    tasks, answer = pickle.loads(job), Answer(distributed.get_worker().address)
    with _busy:
        try:
            request = CatalogRequest(tuple(_same_file(*plugin) for plugin in plugins))
            for session in {task.session for task in tasks} or {0}:
                new = WorkerSupervisor(request, print, place=answer.worker)
                _supervisors.setdefault((run, session), new)
            if not tasks:
                answer.catalog = _supervisors[run, 0].start()
            for task in tasks:
                supervisor = _supervisors[run, task.session]
                device = supervisor.ready(task).catalog.device
                with hold(device_lock(device), device.name, wait=True, note=print):
                    answer.finished.append(supervisor.measure(task, PlainProgress(len(tasks))))
        except (WorkerLost, DeviceGone) as gone:
            answer = Answer(answer.worker, gone=str(gone))
        _idle = threading.Timer(IDLE_LIMIT_S, _end)
        _idle.daemon = True
        _idle.start()
    return answer


def _end() -> None:
    with _busy:
        while _supervisors:
            _supervisors.popitem()[1].stop()


def _same_file(near: str, full: str, sha: str) -> str:
    """The path of a plug-in on this host: in the working folder of the dask worker, otherwise where the run has it. Raises
    DeviceGone if it is another file there."""
    path = Path(near if Path(near).exists() else full)
    if digest(source_text(path)) != sha:
        raise DeviceGone(f"plug-in {path} differs there, or is missing")
    return str(path)
