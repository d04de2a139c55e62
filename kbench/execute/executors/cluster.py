"""Measures a plan on the workers of a dask cluster. dask finds free workers, notices lost ones and runs their jobs again.
kbench decides which workers take part, and gives dask only a few jobs per worker at a time.

A job is a case with all its sessions, so that they share a device; with `--spread` it is one session of a case. The rows of
a job come back as one result. When a worker dies, none of its rows arrive, so no row is there twice.
"""

from __future__ import annotations

import pickle
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import distributed

from kbench.config.load import Config
from kbench.errors import ExecutionError
from kbench.execute.executor import LOSS_LIMIT, Finished, Listener, give_up
from kbench.execute.executors import cluster_worker
from kbench.execute.executors.cluster_members import ANSWER_LIMIT_S, WORKER_SEARCH_S, Members, display_name
from kbench.execute.executors.dask_scheduler import connect, scheduler_errors
from kbench.execute.plan import Task
from kbench.execute.supervision.time_limits import call_all_within, call_within
from kbench.execute.worker.worker_process import START_LIMIT_S
from kbench.protocol import Catalog, DeviceInfo

JOBS_PER_WORKER = 2
"""Jobs per worker that dask has at a time: one running, one prefetched. With more jobs a lost worker would cost more cases
another try, and dask gives a job up after a few tries."""

DASK_POLL_S = 0.02
"""How often to poll for an answer of dask that comes without a callback."""

CATALOG_LIMIT_S = 2 * START_LIMIT_S
"""How long a worker may take to report its catalog."""

CLOSE_LIMIT_S = 3.0
"""How long to wait for each step of disconnecting from a scheduler."""

FIRST_LIMIT_S = 3600.0
"""How long a run waits for the first worker of a cluster: a queueing system may take that long to start one."""

UNKNOWN_DEVICE = DeviceInfo("", "")
"""The device of a task that was lost with its worker."""

Job = tuple[Task, ...]


class Running(NamedTuple):
    """A job that dask has, and the workers that may do it; empty means all of them."""

    future: Any
    job: Job
    takers: frozenset[str]


class Cluster:
    """Connects to a scheduler and waits for a first worker. Raises ExecutionError when the scheduler does not answer, or when
    every worker is refused."""

    scope = "cluster"
    devices: Sequence[DeviceInfo] = ()  # cluster_worker.py locks them on their hosts

    def __init__(self, address: str, config: Config, note: Callable[[str], None], *, spread: bool) -> None:
        self._address, self._note, self._spread = address, note, spread
        self._client = connect(address)
        self._members = Members(self._client, address, config)
        try:
            self.catalog = self._first_catalog()
        except BaseException:
            self.stop()
            raise

    @property
    def places(self) -> list[str]:
        return sorted(map(display_name, self._members.takers))

    def try_operator(self, task: Task) -> None:
        """Nothing to do: each case reports a fault of the operator where it is measured."""

    def start(self) -> None:
        """Nothing to do: a worker starts its measuring process with its first case."""

    def run(self, tasks: Sequence[Task], homes: Mapping[Any, str], listener: Listener) -> Iterator[Finished]:
        waiting = deque(_jobs(tasks, self._spread))
        running: dict[str, Running] = {}
        ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        losses: Counter[tuple[Any, int]] = Counter()
        while waiting or running:
            self._members.update(listener.note)
            waiting.extendleft(self._take_back(running))
            free = max(0, JOBS_PER_WORKER * len(self._members.takers) - len(running))
            batch = [waiting.popleft() for _ in range(min(free, len(waiting)))]
            takers = frozenset(self._members.takers)
            jobs = [pickle.dumps(job) for job in batch]
            for future, job in zip(self._submit(cluster_worker.measure, jobs), batch, strict=True):
                running[future.key] = Running(future, job, takers if self._members.silent else frozenset())
                future.add_done_callback(ready.put)
            for key, result in self._collect(ready, running):
                job = running.pop(key).job
                for line in result.notes:
                    listener.note(f"{display_name(result.worker)}: {line}")
                if not result.gone:
                    yield from result.finished
                    continue
                name = (job[0].case.key, job[0].session)
                if result.worker in self._members.registered:
                    self._members.release(result.worker, result.gone, listener.note)
                    losses[name] += result.fits
                elif not result.worker:
                    losses[name] += 1
                if losses[name] < LOSS_LIMIT:
                    waiting.appendleft(job)
                else:
                    reason = (
                        f"{LOSS_LIMIT} devices were lost while they measured this case; the last error: {result.gone}"
                    )
                    yield from (give_up(task, reason, UNKNOWN_DEVICE, self.catalog.machine) for task in job)

    def stop(self) -> None:
        for call in (self._members.leave, partial(self._client.close, timeout=1)):
            # measuring processes without work end by themselves, see cluster_worker.IDLE_LIMIT_S
            with suppress(OSError, TimeoutError, CancelledError, RuntimeError):
                call_within(CLOSE_LIMIT_S, call)

    def _first_catalog(self) -> Catalog:
        """The catalog of the first worker that has one. The plan is made from it."""
        self._members.update(self._note)
        if not self._members.registered and not self._members.refused:
            minutes = f"{FIRST_LIMIT_S / 60:g} min"
            self._note(f"{self._address} has no worker yet; waiting up to {minutes} for one (Ctrl-C gives up)")
        given_up_at = time.monotonic() + FIRST_LIMIT_S
        while True:
            while not self._members.registered:
                if self._members.refused:
                    raise ExecutionError(f"{self._address}: every worker was refused; the notes above say why")
                if time.monotonic() > given_up_at:
                    raise ExecutionError(
                        f"{self._address}: no worker appeared within {FIRST_LIMIT_S / 60:g} min; start one and run kbench again"
                    )
                self._members.update(self._note)
            asked = self._members.takers[0]
            (future,) = self._submit(cluster_worker.report_catalog, only=[asked])
            deadline = time.monotonic() + CATALOG_LIMIT_S
            while not future.done() and asked in self._members.registered and time.monotonic() < deadline:
                self._members.update(self._note)
                time.sleep(DASK_POLL_S)
            if not future.done():
                if asked in self._members.registered:
                    self._members.release(
                        asked, f"it did not list its operators and providers within {CATALOG_LIMIT_S:g} s", self._note
                    )
                continue
            with scheduler_errors(self._client, self._address):
                worker, catalog, reason = call_within(ANSWER_LIMIT_S, future.result)
            if catalog:
                found: Catalog = catalog
                return found
            self._members.release(worker, reason, self._note)

    def _take_back(self, running: dict[str, Running]) -> list[Job]:
        """Cancel the jobs that only silent or lost workers could do, and return them. Late results of theirs are ignored."""
        if not self._members.silent:
            return []
        with scheduler_errors(self._client, self._address):
            held = call_within(ANSWER_LIMIT_S, partial(self._client.processing, workers=sorted(self._members.silent)))
            keys = {key for kept in held.values() for key in kept}
            found = {
                key: one
                for key, one in running.items()
                if key in keys or (one.takers and not one.takers & self._members.registered.keys())
            }
            if found:
                call_within(ANSWER_LIMIT_S, partial(self._client.cancel, [one.future for one in found.values()]))
        for key in found:
            del running[key]
        return [one.job for one in found.values()]

    def _submit(
        self, function: Callable[..., Any], *arguments: Sequence[Any], only: Sequence[str] | None = None
    ) -> list[Any]:
        """Futures of one call per element of the arguments, or of one call without. `only` names the allowed workers."""
        count = len(arguments[0]) if arguments else 1
        if not count:
            return []
        ticket, resources = self._members.ticket, self._members.resources
        keys = [f"{ticket}-{uuid.uuid4().hex}" for _ in range(count)]
        if self._members.silent and only is None:
            only = self._members.takers  # the scheduler believes that silent workers are free
        submit = partial(self._client.map, pure=False, key=keys, resources=resources, workers=only)
        with scheduler_errors(self._client, self._address):
            futures: list[Any] = call_within(ANSWER_LIMIT_S, partial(submit, function, [ticket] * count, *arguments))
        return futures

    def _collect(
        self, ready: queue.SimpleQueue[Any], running: Mapping[str, Running]
    ) -> list[tuple[str, cluster_worker.JobResult]]:
        """The keys and results of futures that are ready; waits up to WORKER_SEARCH_S for the first."""
        with suppress(queue.Empty):
            futures = [ready.get(timeout=WORKER_SEARCH_S)]
            with suppress(queue.Empty):
                while True:
                    futures.append(ready.get_nowait())
            futures = [future for future in futures if future.key in running]
            with scheduler_errors(self._client, self._address):
                found = self._fetched([future for future in futures if future.status == "finished"])
                for future in futures:
                    if future.status == "error":
                        found[future.key] = _explain_loss(call_within(ANSWER_LIMIT_S, future.exception))
                    elif future.status != "finished":
                        raise CancelledError
                return list(found.items())
        return []

    def _fetched(self, done: Sequence[Any]) -> dict[str, cluster_worker.JobResult]:
        """The results of finished futures. When a worker that holds one does not answer, asks for each separately."""
        try:
            results = call_within(ANSWER_LIMIT_S, partial(self._client.gather, list(done)))
            return dict(zip((future.key for future in done), results, strict=True))
        except TimeoutError:
            each = call_all_within(ANSWER_LIMIT_S, {future.key: future.result for future in done})
        late = cluster_worker.JobResult("", gone="the dask worker that measured the case does not answer")
        for result in each.values():
            if isinstance(result, BaseException) and not isinstance(result, TimeoutError):
                raise result
        return {key: late if isinstance(result, BaseException) else result for key, result in each.items()}


def _jobs(tasks: Sequence[Task], spread: bool) -> Iterator[Job]:
    """Groups of tasks that go to one worker together."""
    if spread:
        yield from ((task,) for task in tasks)
        return
    jobs: dict[Any, list[Task]] = {}
    for task in tasks:
        jobs.setdefault(task.case.key, []).append(task)
    yield from map(tuple, jobs.values())


def _explain_loss(error: BaseException) -> cluster_worker.JobResult:
    """The result of a job that dask gave up because too many workers were lost under it. Raises any other error."""
    if not isinstance(error, distributed.scheduler.KilledWorker):
        raise error
    return cluster_worker.JobResult("", gone=f"the dask worker {display_name(error.last_worker.address)} died")
