"""Measures a plan on the workers of a dask cluster. dask finds free workers, notices lost ones and runs their cases again;
kbench decides who may take part, and keeps no more than a few cases per worker in dask's hands.

A job is a case with all its sessions, so that they share a device, or one session of it where they are to be spread. Its rows
come back as one result: those of a worker that dies meanwhile never arrive, and nothing is there twice.
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
from kbench.execute.executors.interface import LOSS_LIMIT, Device, Finished, Listener, given_up
from kbench.execute.executors.time_limits import Pulse, together, within
from kbench.execute.plan import Task
from kbench.execute.worker.worker_process import START_LIMIT_S

try:
    import distributed

    from kbench.execute.executors import cluster_worker
    from kbench.execute.executors.dask_scheduler import connect
except ImportError:
    raise ExecutionError(f"--scheduler: {packages.missing('distributed')}") from None

IN_HAND = 2
"""Jobs per worker that dask has at a time: one that runs, and one that need not be waited for. More would make a lost worker
cost more cases a second try, and dask gives a case up after some."""

GLANCE_S = 0.02
"""How often to look whether an answer has come that nobody is told of."""

LOOK_S = 1.0
"""How often to look for new workers."""

PULSE_S = 5.0
"""How often to look whether workers are still there. Each tells the scheduler every few seconds."""

SILENT_LIMIT_S = 30.0
"""How long a worker may say nothing to its scheduler. dask itself waits for minutes."""

ANSWER_LIMIT_S = 12.0
"""How long a scheduler or a worker may take to answer a short question."""

CATALOG_LIMIT_S = 2 * START_LIMIT_S
"""How long a worker may take to tell what there is."""

CLOSE_LIMIT_S = 3.0
"""How long to take leave of a scheduler."""

ALONE_LIMIT_S = 300.0
"""How long a run that has lost its last worker waits for another: a queueing system may bring one."""

FIRST_LIMIT_S = 3600.0
"""How long a run waits for the first worker of a cluster: a queueing system may take that long to start one."""

GPU = "GPU"
"""The resource that workers with a GPU declare by custom (`--resources GPU=1`). Where one of a cluster does, cases go to those
alone and take it, so that nobody else's tasks share the device; a cluster of hosts without GPUs declares nothing."""

UNKNOWN: Device = {"name": "", "index": None, "uuid": ""}

Job = tuple[Task, ...]


class Running(NamedTuple):
    """A job in dask's hands, and the workers that may do it: none are named where all may."""

    future: Any
    job: Job
    takers: frozenset[str]


class Cluster:
    """Connects, and waits for a first worker. Raises ExecutionError for a scheduler that does not answer, or whose every
    worker is refused."""

    scope = "cluster"
    devices: Sequence[Device] = ()  # locked where they are: see remote.py

    def __init__(self, address: str, config: Config, note: Callable[[str], None], *, spread: bool) -> None:
        self._address, self._note, self._spread = address, note, spread
        self._ticket = f"kbench-{uuid.uuid4().hex[:12]}"
        self._files = Files.of(config.path, config.plugins)
        self._wanted = identity(self._files)
        self._admitted: dict[str, bool] = {}  # and whether they declare a GPU
        self._refused: set[str] = set()
        self._silent: set[str] = set()  # refused, but the scheduler still gives them tasks
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

    def attempt(self, task: Task) -> None:
        """Every case finds out for itself, where it is measured."""

    def start(self) -> None:
        """The workers start their measuring processes with their first case."""

    @property
    def _takers(self) -> list[str]:
        """Workers that get cases."""
        some = any(self._admitted.values())
        return [worker for worker, gpu in self._admitted.items() if gpu or not some]

    def run(self, tasks: Sequence[Task], homes: Mapping[Any, str], listener: Listener) -> Iterator[Finished]:
        waiting = deque(_jobs(tasks, self._spread))
        running: dict[str, Running] = {}
        ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        losses: Counter[tuple[Any, int]] = Counter()
        while waiting or running:
            self._look_around(listener.note)
            waiting.extendleft(self._taken_back(running))
            free = max(0, IN_HAND * len(self._takers) - len(running))
            batch = [waiting.popleft() for _ in range(min(free, len(waiting)))]
            takers = frozenset(self._takers)
            jobs = [pickle.dumps(job) for job in batch]
            for future, job in zip(self._submit(cluster_worker.measure, jobs), batch, strict=True):
                running[future.key] = Running(future, job, takers if self._silent else frozenset())
                future.add_done_callback(ready.put)
            for key, delivery in self._collect(ready, running):
                job = running.pop(key).job
                for line in delivery.notes:
                    listener.note(f"{_place(delivery.worker)}: {line}")
                if not delivery.gone:
                    yield from delivery.finished
                    continue
                name = (job[0].case.key, job[0].session)
                if delivery.worker in self._admitted:
                    self._dismiss(delivery.worker, delivery.gone, listener.note)
                    losses[name] += 1
                elif not delivery.worker:
                    losses[name] += 1
                if losses[name] < LOSS_LIMIT:
                    waiting.appendleft(job)
                else:
                    reason = f"{LOSS_LIMIT} devices were lost while it was measured, the last one: {delivery.gone}"
                    yield from (given_up(task, reason, UNKNOWN, self.catalog["environment"]) for task in job)

    def stop(self) -> None:
        admitted, self._admitted = list(self._admitted), {}

        def leave() -> None:
            if self._client.status == "running" and admitted:
                self._client.run(cluster_worker.dismiss, self._ticket, workers=admitted, wait=False, on_error="ignore")

        for call in (leave, partial(self._client.close, timeout=1)):
            # whoever is gone needs no dismissal: measuring processes without work end by themselves, see remote.py
            with suppress(OSError, TimeoutError, CancelledError, RuntimeError):
                within(CLOSE_LIMIT_S, call)

    # -- workers

    def _first_catalog(self) -> Mapping[str, Any]:
        """What the plan is made from: the catalog of the first worker that can give one."""
        self._look_around(self._note)
        if not self._admitted and not self._refused:
            minutes = f"{FIRST_LIMIT_S / 60:g} min"
            self._note(f"{self._address} has no worker yet; waiting up to {minutes} for one (Ctrl-C gives up)")
        given_up_at = time.monotonic() + FIRST_LIMIT_S
        while True:
            while not self._admitted:
                if self._refused:
                    raise ExecutionError(f"{self._address}: every worker is turned away, see above")
                if time.monotonic() > given_up_at:
                    raise ExecutionError(f"{self._address}: no worker within {FIRST_LIMIT_S / 60:g} min; start one")
                self._look_around(self._note)
            asked = self._takers[0]
            (future,) = self._submit(cluster_worker.catalog, only=[asked])
            deadline = time.monotonic() + CATALOG_LIMIT_S
            while not future.done() and asked in self._admitted and time.monotonic() < deadline:
                self._look_around(self._note)
                time.sleep(GLANCE_S)
            if not future.done():
                if asked in self._admitted:
                    self._dismiss(asked, f"it tells nothing within {CATALOG_LIMIT_S:g} s", self._note)
                continue
            with self._noticing():
                worker, catalog, reason = within(ANSWER_LIMIT_S, future.result)
            if catalog:
                return dict(catalog)
            self._dismiss(worker, reason, self._note)

    def _look_around(self, note: Callable[[str], None]) -> None:
        """Admit or refuse new workers, forget lost ones. Raises ExecutionError where none is left for long."""
        now = time.monotonic()
        if now < self._next_look:
            if not self._admitted:
                time.sleep(self._next_look - now)
            return
        self._next_look = now + LOOK_S
        with self._noticing():
            present = set(within(ANSWER_LIMIT_S, self._client.nthreads))
        for worker in self._admitted.keys() - present:
            note(f"{_place(worker)} is lost; its case is measured again elsewhere")
            del self._admitted[worker]
        self._silent &= present
        for worker, answer in self._admissions(sorted(present - self._admitted.keys() - self._refused)).items():
            self._judge(worker, answer, note)
        if now >= self._next_pulse:
            self._next_pulse = now + PULSE_S
            self._feel_pulse(now, note)
        if self._admitted:
            self._alone_since = now
        elif self._alone_since and now - self._alone_since > ALONE_LIMIT_S:
            raise ExecutionError(f"{self._address}: no worker for {ALONE_LIMIT_S:g} s; --resume goes on")

    def _admissions(self, workers: Sequence[str]) -> dict[str, Any]:
        """What each of these says to its admission, or the exception that it costs."""
        arguments = (cluster_worker.admit, self._ticket, self._files, self._wanted)
        if self._client.status != "running":
            return {}

        def admit(worker: str) -> Any:
            return self._client.run(*arguments, workers=[worker], on_error="return").get(worker, OSError("it has gone"))

        return together(ANSWER_LIMIT_S, {worker: partial(admit, worker) for worker in workers})

    def _feel_pulse(self, now: float, note: Callable[[str], None]) -> None:
        """Give up workers that no longer say that they are there: stopped ones, and those behind a network that is gone."""
        with self._noticing():
            known = within(ANSWER_LIMIT_S, partial(self._client.scheduler_info, n_workers=-1))["workers"]
        signs = {worker: known[worker]["last_seen"] for worker in self._admitted if worker in known}
        for worker in self._pulse.silent(signs, now):
            note(f"{_place(worker)} has said nothing for {SILENT_LIMIT_S:g} s; its case is measured again elsewhere")
            del self._admitted[worker]
            self._refused.add(worker)
            self._silent.add(worker)

    def _taken_back(self, running: dict[str, Running]) -> list[Job]:
        """Jobs that only silent or lost workers could do. They are nobody's from here on: what comes of them late is not
        looked at."""
        if not self._silent:
            return []
        with self._noticing():
            held = within(ANSWER_LIMIT_S, partial(self._client.processing, workers=sorted(self._silent)))
            keys = {key for kept in held.values() for key in kept}
            found = {
                key: one
                for key, one in running.items()
                if key in keys or (one.takers and not one.takers & self._admitted.keys())
            }
            if found:
                within(ANSWER_LIMIT_S, partial(self._client.cancel, [one.future for one in found.values()]))
        for key in found:
            del running[key]
        return [one.job for one in found.values()]

    def _judge(self, worker: str, answer: Any, note: Callable[[str], None]) -> None:
        """Take note of what a worker says to its admission."""
        if isinstance(answer, TimeoutError):
            reasons = [str(answer)]
        elif isinstance(answer, BaseException):
            reasons = [f"kbench does not run there ({type(answer).__name__}: {answer})"]
        else:
            reasons = answer["differences"]
        if reasons:
            self._refused.add(worker)
            note(f"{_place(worker)} is refused: {'; '.join(reasons)}")
            return
        self._admitted[worker] = GPU in answer["resources"]

    def _dismiss(self, worker: str, reason: str, note: Callable[[str], None]) -> None:
        note(f"{_place(worker)} gets no more cases: {reason}")
        self._admitted.pop(worker, None)
        self._refused.add(worker)
        leave = partial(
            self._client.run, cluster_worker.dismiss, self._ticket, workers=[worker], wait=False, on_error="ignore"
        )
        with suppress(TimeoutError):  # it gives back at once what it still gets, or is silent
            within(ANSWER_LIMIT_S, leave)

    # -- dask

    def _submit(
        self, function: Callable[..., Any], *arguments: Sequence[Any], only: Sequence[str] | None = None
    ) -> list[Any]:
        """Futures of a call per element of the arguments, or of one call without; at `only` these workers."""
        count = len(arguments[0]) if arguments else 1
        if not count:
            return []
        keys = [f"{self._ticket}-{uuid.uuid4().hex}" for _ in range(count)]
        tickets = [self._ticket] * count
        resources = {self._ticket: 1} | ({GPU: 1} if any(self._admitted.values()) else {})
        if self._silent and only is None:
            only = self._takers  # the scheduler takes the silent for free
        submit = partial(self._client.map, pure=False, key=keys, resources=resources, workers=only)
        with self._noticing():
            futures: list[Any] = within(ANSWER_LIMIT_S, partial(submit, function, tickets, *arguments))
        return futures

    def _collect(
        self, ready: queue.SimpleQueue[Any], running: Mapping[str, Running]
    ) -> list[tuple[str, cluster_worker.Delivery]]:
        """The keys and results of futures that are ready, after a moment if none is. Many are fetched at once."""
        with suppress(queue.Empty):
            futures = [ready.get(timeout=LOOK_S)]
            with suppress(queue.Empty):
                while True:
                    futures.append(ready.get_nowait())
            futures = [future for future in futures if future.key in running]
            with self._noticing():
                found = self._fetched([future for future in futures if future.status == "finished"])
                for future in futures:
                    if future.status == "error":
                        found[future.key] = _post_mortem(within(ANSWER_LIMIT_S, future.exception))
                    elif future.status != "finished":
                        raise CancelledError
                return list(found.items())
        return []

    def _fetched(self, done: Sequence[Any]) -> dict[str, cluster_worker.Delivery]:
        """The results of finished futures. Where somebody who holds one does not answer, each is asked for by itself."""
        try:
            results = within(ANSWER_LIMIT_S, partial(self._client.gather, list(done)))
            return dict(zip((future.key for future in done), results, strict=True))
        except TimeoutError:
            each = together(ANSWER_LIMIT_S, {future.key: future.result for future in done})
        late = cluster_worker.Delivery("", gone="the dask worker that has measured it does not answer")
        for result in each.values():
            if isinstance(result, BaseException) and not isinstance(result, TimeoutError):
                raise result
        return {key: late if isinstance(result, BaseException) else result for key, result in each.items()}

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """What dask says in many ways when its scheduler has gone. It would try to find it again: a new scheduler at the same
        address knows nothing of this run."""
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
    """Tasks that go to a worker together."""
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


def _post_mortem(error: BaseException) -> cluster_worker.Delivery:
    """What is left of a job under which dask has lost as many workers as it puts up with. Raises any other error."""
    if not isinstance(error, distributed.scheduler.KilledWorker):
        raise error
    return cluster_worker.Delivery("", gone=f"the dask worker {_place(error.last_worker.address)} died")
