"""Measures a plan on a dask cluster: on its workers that declare `GPU=1`, one for each device.

A job is a case with all its sessions, so that they share a device; with `--spread` it is one session of a case. Each worker has
one job at a time. When it dies, another one gets the job. The rows of a job arrive together, so none is lost or there twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import distributed

from kbench.errors import ExecutionError, WorkerLost
from kbench.execute.executor import Executor, Finished, make_failed_row
from kbench.execute.lock import device_lock, hold
from kbench.execute.progress import PlainProgress
from kbench.execute.supervisor import WorkerSupervisor
from kbench.files import source_text
from kbench.protocol import Catalog, CatalogRequest, DeviceInfo, Task
from kbench.results.case import Case
from kbench.results.stamps import digest
from kbench.results.vocabulary import Status
from kbench.text import terminal

ANSWER_LIMIT_S = 12
"""How long the scheduler may take to answer."""

WORKER_LIMIT_S = 3600
"""How long to wait while there is no worker, which a queueing system may start."""

MOST_LOST_WORKERS = 3
"""After the deaths of so many workers that measured it, a case is given up."""


class Cluster(Executor):
    """Connects to a scheduler and waits for a first worker. Raises ExecutionError."""

    scope = "cluster"  # a dask worker locks its device itself

    def __init__(self, address: str, plugins: Sequence[str], *, spread: bool) -> None:
        self._address, self._spread = address, spread
        self._plugins = [(os.path.relpath(path), path, digest(source_text(Path(path)))) for path in plugins]
        self._processes: dict[str, Any] = {}  # futures of Processes, by the addresses of workers
        self._unfit: set[str] = set()  # workers without a device or with other code
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
            logging.getLogger(name).setLevel(logging.CRITICAL)  # kbench reports the same events itself
        with self._failures("no dask scheduler answers; check the address, or start one with `dask scheduler`"):
            security = distributed.Security().get_connection_args("client")
            # a Client has no limit for this
            greeting = distributed.comm.connect(address, ANSWER_LIMIT_S, **security)
            asyncio.run(asyncio.wait_for(greeting, 2 * ANSWER_LIMIT_S))
            self._client = distributed.Client(address, timeout=ANSWER_LIMIT_S, set_as_default=False)
            self.places = sorted(self._workers())
        self.catalog = next(self._answers([[]]))

    def run(self, tasks: Sequence[Task], measured_on: Mapping[Case, str], display: PlainProgress) -> Iterator[Finished]:
        jobs: dict[tuple[Case, int], list[Task]] = {}
        for task in tasks:
            jobs.setdefault((task.case, task.session if self._spread else 0), []).append(task)
        for finished in self._answers(list(jobs.values())):
            yield from finished

    def stop(self) -> None:
        with suppress(Exception):  # of many kinds, if the scheduler is gone
            self._client.close(timeout=1)

    def _answers(self, jobs: list[list[Task]]) -> Iterator[Any]:
        """What `measure` returns for each job."""
        running: dict[str, tuple[Any, list[Task]]] = {}  # future and job, by the address of the worker
        lost: list[list[Task]] = []  # the job of each worker that died
        news = threading.Event()
        with self._failures("the scheduler is gone, or a worker fails; continue with --resume"):
            while jobs or running:
                workers = self._workers()
                for worker in sorted(workers - running.keys())[: len(jobs)]:
                    running[worker] = self._submit(worker, jobs[0]), jobs.pop(0)
                    running[worker][0].add_done_callback(lambda _: news.set())
                news.wait(timeout=1)  # then there may be other workers
                news.clear()
                for worker, (future, job) in list(running.items()):
                    if worker not in workers:
                        del running[worker]
                        lost.append(job)
                        if job and lost.count(job) == MOST_LOST_WORKERS:
                            yield [self._crashed(task) for task in job]
                        else:
                            jobs.insert(0, job)
                    elif future.done():
                        del running[worker]
                        try:
                            yield future.result(timeout=ANSWER_LIMIT_S)
                        except WorkerLost as lost_device:
                            terminal.note(f"{worker} gets no more cases: {lost_device}")
                            self._unfit.add(worker)
                            jobs.insert(0, job)

    def _workers(self) -> set[str]:
        """The workers that get jobs, as soon as there are any."""
        for second in range(WORKER_LIMIT_S):
            identity = self._client.sync(self._client.scheduler.identity, callback_timeout=ANSWER_LIMIT_S)
            declared = {address for address, worker in identity["workers"].items() if worker["resources"].get("GPU")}
            if workers := declared - self._unfit:
                return workers
            if second == 0:
                terminal.note(
                    f"{self._address}: waiting up to an hour for a worker with `--resources GPU=1` (Ctrl-C gives up)"
                )
            time.sleep(1)
        raise TimeoutError("no worker came")

    def _submit(self, worker: str, job: list[Task]) -> Any:
        options = {"workers": [worker], "resources": {"GPU": 1}, "pure": False}
        if worker not in self._processes:
            self._processes[worker] = self._client.submit(Processes, **options)
        return self._client.submit(measure, self._processes[worker], self._plugins, job, **options)

    def _crashed(self, task: Task) -> Finished:
        reason = f"{MOST_LOST_WORKERS} dask workers died while they measured this case"
        rows = [make_failed_row(task, configuration, Status.CRASHED, reason) for configuration in task.configurations]
        return Finished(task, rows, DeviceInfo("", ""), self.catalog.machine)

    @contextmanager
    def _failures(self, event: str) -> Iterator[None]:
        """Raise ExecutionError for the many exceptions of dask, and for those of a worker that has another kbench or none."""
        try:
            yield
        except Exception as error:
            self.stop()
            first = (str(error).splitlines() or [""])[0]
            raise ExecutionError(f"{self._address}: {event} ({type(error).__name__}: {first})") from error


# -- what runs on a dask worker


class Processes(dict[int, WorkerSupervisor]):
    """The measuring processes of a run, by session: to start one takes longer than to measure a short case. dask keeps them on
    the worker until the run has ended or is gone."""

    def __del__(self) -> None:
        for supervisor in self.values():
            supervisor.stop()


def measure(processes: Processes, plugins: list[tuple[str, str, str]], job: list[Task]) -> Catalog | list[Finished]:
    """Measure the tasks of a job, or read the catalog without any. Notes go to the log of the worker. Raises WorkerLost."""
    request = CatalogRequest(tuple(_same_file(*plugin) for plugin in plugins))
    place, finished = distributed.get_worker().address, list[Finished]()
    for session in {task.session for task in job} or {0}:
        processes.setdefault(session, WorkerSupervisor(request, place=place))
    for task in job:
        device = processes[task.session].ready(task).catalog.device
        with hold(device_lock(device), device.name, wait=True):
            finished.append(processes[task.session].measure(task, PlainProgress(1)))
    try:
        return finished or processes[0].start()
    except WorkerLost as lost:
        raise WorkerLost(str(lost)) from None  # dask cannot send a WorkerFailed


def _same_file(near: str, full: str, sha: str) -> str:
    """The path of a plug-in on this host: in the working folder of the dask worker, otherwise where the run has it."""
    path = Path(near if Path(near).exists() else full)
    if digest(source_text(path)) != sha:
        raise WorkerLost(f"plug-in {path} differs there, or is missing")
    return str(path)
