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
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from kbench import packages
from kbench.config.load import Config
from kbench.errors import ExecutionError
from kbench.execute.executors.code_identity import Files, identity
from kbench.execute.executors.interface import LOSS_LIMIT, Finished, Listener, give_up
from kbench.execute.executors.time_limits import Pulse, together, within
from kbench.execute.plan import Task
from kbench.execute.worker.worker_process import START_LIMIT_S
from kbench.protocol import Catalog, DeviceInfo

try:
    import distributed

    from kbench.execute.executors import cluster_worker
    from kbench.execute.executors.dask_scheduler import connect
except ImportError:
    raise ExecutionError(f"--scheduler: {packages.missing('distributed')}") from None

JOBS_PER_WORKER = 2
"""Jobs per worker that dask has at a time: one running, one prefetched. With more jobs a lost worker would cost more cases
another try, and dask gives a job up after a few tries."""

GLANCE_S = 0.02
"""How often to poll for an answer of dask that comes without a callback."""

LOOK_S = 1.0
"""How often to look for new workers."""

PULSE_S = 5.0
"""How often to check that workers are alive. Each reports to the scheduler every few seconds."""

SILENT_LIMIT_S = 30.0
"""How long a worker may not report to its scheduler before kbench counts it as lost. dask waits for minutes."""

ANSWER_LIMIT_S = 12.0
"""How long a scheduler or a worker may take to answer a short question."""

CATALOG_LIMIT_S = 2 * START_LIMIT_S
"""How long a worker may take to report its catalog."""

CLOSE_LIMIT_S = 3.0
"""How long to wait for each step of disconnecting from a scheduler."""

ALONE_LIMIT_S = 300.0
"""How long a run that has lost its last worker waits for another: a queueing system may start one."""

FIRST_LIMIT_S = 3600.0
"""How long a run waits for the first worker of a cluster: a queueing system may take that long to start one."""

GPU = "GPU"
"""The resource that dask workers with a GPU usually declare (`--resources GPU=1`). When any worker of a cluster declares it,
jobs go to such workers only and take the resource, so that no other task uses the device at the same time."""

UNKNOWN = DeviceInfo("", "")
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
        self._ticket = f"kbench-{uuid.uuid4().hex[:12]}"
        self._files = Files.of(config.path, config.plugins)
        self._wanted = identity(self._files)
        self._registered: dict[str, bool] = {}  # whether each declares a GPU
        self._refused: set[str] = set()
        self._silent: set[str] = set()  # refused, but the scheduler still gives them jobs
        self._pulse = Pulse(SILENT_LIMIT_S)
        self._next_look = self._next_pulse = self._alone_since = 0.0
        self._client = connect(address)
        try:
            self.catalog = self._first_catalog()
        except BaseException:
            self.stop()
            raise

    @property
    def places(self) -> list[str]:
        return sorted(map(_place, self._takers))

    def try_operator(self, task: Task) -> None:
        """Nothing to do: each case reports a fault of the operator where it is measured."""

    def start(self) -> None:
        """Nothing to do: a worker starts its measuring process with its first case."""

    @property
    def _takers(self) -> list[str]:
        """The workers that get jobs."""
        some = any(self._registered.values())
        return [worker for worker, gpu in self._registered.items() if gpu or not some]

    def run(self, tasks: Sequence[Task], homes: Mapping[Any, str], listener: Listener) -> Iterator[Finished]:
        waiting = deque(_jobs(tasks, self._spread))
        running: dict[str, Running] = {}
        ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        losses: Counter[tuple[Any, int]] = Counter()
        while waiting or running:
            self._look_around(listener.note)
            waiting.extendleft(self._take_back(running))
            free = max(0, JOBS_PER_WORKER * len(self._takers) - len(running))
            batch = [waiting.popleft() for _ in range(min(free, len(waiting)))]
            takers = frozenset(self._takers)
            jobs = [pickle.dumps(job) for job in batch]
            for future, job in zip(self._submit(cluster_worker.measure, jobs), batch, strict=True):
                running[future.key] = Running(future, job, takers if self._silent else frozenset())
                future.add_done_callback(ready.put)
            for key, result in self._collect(ready, running):
                job = running.pop(key).job
                for line in result.notes:
                    listener.note(f"{_place(result.worker)}: {line}")
                if not result.gone:
                    yield from result.finished
                    continue
                name = (job[0].case.key, job[0].session)
                if result.worker in self._registered:
                    self._release(result.worker, result.gone, listener.note)
                    losses[name] += 1
                elif not result.worker:
                    losses[name] += 1
                if losses[name] < LOSS_LIMIT:
                    waiting.appendleft(job)
                else:
                    reason = f"{LOSS_LIMIT} devices were lost while it was measured, the last one: {result.gone}"
                    yield from (give_up(task, reason, UNKNOWN, self.catalog.machine) for task in job)

    def stop(self) -> None:
        registered, self._registered = list(self._registered), {}

        def leave() -> None:
            if self._client.status == "running" and registered:
                self._client.run(
                    cluster_worker.release, self._ticket, workers=registered, wait=False, on_error="ignore"
                )

        for call in (leave, partial(self._client.close, timeout=1)):
            # measuring processes without work end by themselves, see cluster_worker.IDLE_LIMIT_S
            with suppress(OSError, TimeoutError, CancelledError, RuntimeError):
                within(CLOSE_LIMIT_S, call)

    # -- workers

    def _first_catalog(self) -> Catalog:
        """The catalog of the first worker that has one. The plan is made from it."""
        self._look_around(self._note)
        if not self._registered and not self._refused:
            minutes = f"{FIRST_LIMIT_S / 60:g} min"
            self._note(f"{self._address} has no worker yet; waiting up to {minutes} for one (Ctrl-C gives up)")
        given_up_at = time.monotonic() + FIRST_LIMIT_S
        while True:
            while not self._registered:
                if self._refused:
                    raise ExecutionError(f"{self._address}: every worker is refused, see above")
                if time.monotonic() > given_up_at:
                    raise ExecutionError(f"{self._address}: no worker within {FIRST_LIMIT_S / 60:g} min; start one")
                self._look_around(self._note)
            asked = self._takers[0]
            (future,) = self._submit(cluster_worker.catalog, only=[asked])
            deadline = time.monotonic() + CATALOG_LIMIT_S
            while not future.done() and asked in self._registered and time.monotonic() < deadline:
                self._look_around(self._note)
                time.sleep(GLANCE_S)
            if not future.done():
                if asked in self._registered:
                    self._release(asked, f"it reports no catalog within {CATALOG_LIMIT_S:g} s", self._note)
                continue
            with self._scheduler_errors():
                worker, catalog, reason = within(ANSWER_LIMIT_S, future.result)
            if catalog:
                found: Catalog = catalog
                return found
            self._release(worker, reason, self._note)

    def _look_around(self, note: Callable[[str], None]) -> None:
        """Register or refuse new workers, and drop lost ones. Raises ExecutionError when there was none for ALONE_LIMIT_S."""
        now = time.monotonic()
        if now < self._next_look:
            if not self._registered:
                time.sleep(self._next_look - now)
            return
        self._next_look = now + LOOK_S
        with self._scheduler_errors():
            present = set(within(ANSWER_LIMIT_S, self._client.nthreads))
        for worker in self._registered.keys() - present:
            note(f"{_place(worker)} is lost; its case is measured again elsewhere")
            del self._registered[worker]
        self._silent &= present
        for worker, answer in self._register(sorted(present - self._registered.keys() - self._refused)).items():
            self._judge(worker, answer, note)
        if now >= self._next_pulse:
            self._next_pulse = now + PULSE_S
            self._drop_silent(now, note)
        if self._registered:
            self._alone_since = now
        elif self._alone_since and now - self._alone_since > ALONE_LIMIT_S:
            raise ExecutionError(f"{self._address}: no worker for {ALONE_LIMIT_S:g} s; --resume goes on")

    def _register(self, workers: Sequence[str]) -> dict[str, Any]:
        """Ask workers to take part. Returns each one's `Registration`, or the exception that it raised."""
        arguments = (cluster_worker.register, self._ticket, self._files, self._wanted)
        if self._client.status != "running":
            return {}

        def register(worker: str) -> Any:
            return self._client.run(*arguments, workers=[worker], on_error="return").get(worker, OSError("it has gone"))

        return together(ANSWER_LIMIT_S, {worker: partial(register, worker) for worker in workers})

    def _drop_silent(self, now: float, note: Callable[[str], None]) -> None:
        """Drop workers that no longer report to the scheduler: stopped ones, and those whose network has failed."""
        with self._scheduler_errors():
            known = within(ANSWER_LIMIT_S, partial(self._client.scheduler_info, n_workers=-1))["workers"]
        signs = {worker: known[worker]["last_seen"] for worker in self._registered if worker in known}
        for worker in self._pulse.silent(signs, now):
            note(f"{_place(worker)} has said nothing for {SILENT_LIMIT_S:g} s; its case is measured again elsewhere")
            del self._registered[worker]
            self._refused.add(worker)
            self._silent.add(worker)

    def _take_back(self, running: dict[str, Running]) -> list[Job]:
        """Cancel the jobs that only silent or lost workers could do, and return them. Late results of theirs are ignored."""
        if not self._silent:
            return []
        with self._scheduler_errors():
            held = within(ANSWER_LIMIT_S, partial(self._client.processing, workers=sorted(self._silent)))
            keys = {key for kept in held.values() for key in kept}
            found = {
                key: one
                for key, one in running.items()
                if key in keys or (one.takers and not one.takers & self._registered.keys())
            }
            if found:
                within(ANSWER_LIMIT_S, partial(self._client.cancel, [one.future for one in found.values()]))
        for key in found:
            del running[key]
        return [one.job for one in found.values()]

    def _judge(self, worker: str, answer: Any, note: Callable[[str], None]) -> None:
        """Accept or refuse a worker, by its answer."""
        if isinstance(answer, TimeoutError):
            reasons = [str(answer)]
        elif isinstance(answer, BaseException):
            reasons = [f"kbench does not run there ({type(answer).__name__}: {answer})"]
        else:
            reasons = answer.differences
        if reasons:
            self._refused.add(worker)
            note(f"{_place(worker)} is refused: {'; '.join(reasons)}")
            return
        self._registered[worker] = GPU in answer.resources

    def _release(self, worker: str, reason: str, note: Callable[[str], None]) -> None:
        note(f"{_place(worker)} gets no more cases: {reason}")
        self._registered.pop(worker, None)
        self._refused.add(worker)
        leave = partial(
            self._client.run, cluster_worker.release, self._ticket, workers=[worker], wait=False, on_error="ignore"
        )
        with suppress(TimeoutError):  # the worker may be silent; otherwise it gives back its jobs at once
            within(ANSWER_LIMIT_S, leave)

    # -- dask

    def _submit(
        self, function: Callable[..., Any], *arguments: Sequence[Any], only: Sequence[str] | None = None
    ) -> list[Any]:
        """Futures of one call per element of the arguments, or of one call without. `only` names the allowed workers."""
        count = len(arguments[0]) if arguments else 1
        if not count:
            return []
        keys = [f"{self._ticket}-{uuid.uuid4().hex}" for _ in range(count)]
        tickets = [self._ticket] * count
        resources = {self._ticket: 1} | ({GPU: 1} if any(self._registered.values()) else {})
        if self._silent and only is None:
            only = self._takers  # the scheduler believes that silent workers are free
        submit = partial(self._client.map, pure=False, key=keys, resources=resources, workers=only)
        with self._scheduler_errors():
            futures: list[Any] = within(ANSWER_LIMIT_S, partial(submit, function, tickets, *arguments))
        return futures

    def _collect(
        self, ready: queue.SimpleQueue[Any], running: Mapping[str, Running]
    ) -> list[tuple[str, cluster_worker.JobResult]]:
        """The keys and results of futures that are ready; waits up to LOOK_S for the first."""
        with suppress(queue.Empty):
            futures = [ready.get(timeout=LOOK_S)]
            with suppress(queue.Empty):
                while True:
                    futures.append(ready.get_nowait())
            futures = [future for future in futures if future.key in running]
            with self._scheduler_errors():
                found = self._fetched([future for future in futures if future.status == "finished"])
                for future in futures:
                    if future.status == "error":
                        found[future.key] = _explain_loss(within(ANSWER_LIMIT_S, future.exception))
                    elif future.status != "finished":
                        raise CancelledError
                return list(found.items())
        return []

    def _fetched(self, done: Sequence[Any]) -> dict[str, cluster_worker.JobResult]:
        """The results of finished futures. Where somebody who holds one does not answer, each is asked for by itself."""
        try:
            results = within(ANSWER_LIMIT_S, partial(self._client.gather, list(done)))
            return dict(zip((future.key for future in done), results, strict=True))
        except TimeoutError:
            each = together(ANSWER_LIMIT_S, {future.key: future.result for future in done})
        late = cluster_worker.JobResult("", gone="the dask worker that has measured it does not answer")
        for result in each.values():
            if isinstance(result, BaseException) and not isinstance(result, TimeoutError):
                raise result
        return {key: late if isinstance(result, BaseException) else result for key, result in each.items()}

    @contextmanager
    def _scheduler_errors(self) -> Iterator[None]:
        """Raise ExecutionError for the many exceptions that dask raises when its scheduler is gone. kbench does not let dask
        reconnect: a new scheduler at the same address knows nothing of this run."""
        try:
            if self._client.status != "running":
                raise CancelledError
            yield
        except (OSError, TimeoutError, CancelledError) as error:
            fault = (
                "is gone"
                if self._client.status != "running" or not isinstance(error, TimeoutError)
                else "does not answer"
            )
            raise ExecutionError(
                f"{self._address}: the scheduler {fault}; --resume goes on, with it or another"
            ) from None


def _jobs(tasks: Sequence[Task], spread: bool) -> Iterator[Job]:
    """Groups of tasks that go to one worker together."""
    if spread:
        yield from ((task,) for task in tasks)
        return
    jobs: dict[Any, list[Task]] = {}
    for task in tasks:
        jobs.setdefault(task.case.key, []).append(task)
    yield from map(tuple, jobs.values())


def _place(worker: str) -> str:
    """`tcp://10.0.0.7:40123` in progress and messages."""
    return worker.partition("://")[2] or worker


def _explain_loss(error: BaseException) -> cluster_worker.JobResult:
    """The result of a job that dask gave up because too many workers were lost under it. Raises any other error."""
    if not isinstance(error, distributed.scheduler.KilledWorker):
        raise error
    return cluster_worker.JobResult("", gone=f"the dask worker {_place(error.last_worker.address)} died")
