"""Measures a plan on the workers of a dask cluster. dask finds free workers, notices lost ones and runs their cases again;
kbench decides who may take part, and keeps no more than a few cases per worker in dask's hands.

A job is a case with all its sessions, so that they share a device, or one session of it where they are to be spread. Its rows
come back as one result: those of a worker that dies meanwhile never arrive, and nothing is there twice.
"""

from __future__ import annotations

import logging
import pickle
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any

from kbench.config import Config
from kbench.execute.code import Files, identity
from kbench.execute.executor import LOSS_LIMIT, Device, ExecutionError, Finished, Listener, given_up
from kbench.execute.plan import Task

try:
    import distributed

    from kbench.execute import remote
except ImportError:
    raise ExecutionError("--scheduler needs dask.distributed: pip install kbench[cluster]") from None

CONNECT_LIMIT_S = 10.0
"""How long to try to reach the scheduler."""

IN_HAND = 2
"""Jobs per worker that dask has at a time: one that runs, and one that need not be waited for. More would make a lost worker
cost more cases a second try, and dask gives a case up after some."""

LOOK_S = 1.0
"""How often to look for new workers."""

ALONE_LIMIT_S = 300.0
"""How long a run that has lost its last worker waits for another: a queueing system may bring one."""

GPU = "GPU"
"""The resource that workers with a GPU declare by custom (`--resources GPU=1`). Where one of a cluster does, cases go to those
alone and take it, so that nobody else's tasks share the device; a cluster of hosts without GPUs declares nothing."""

UNKNOWN: Device = {"name": "", "index": None, "uuid": ""}

Job = tuple[Task, ...]


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
        self._next_look = self._alone_since = 0.0
        _silence()
        try:
            _check(address)
            self._client = distributed.Client(address, timeout=CONNECT_LIMIT_S, set_as_default=False, name="kbench")
        except (OSError, TimeoutError, ValueError) as error:
            raise ExecutionError(f"{address}: no dask scheduler answers ({_first_line(error)})") from None
        try:
            self.catalog = self._first_catalog()
        except BaseException:
            self.stop()
            raise

    @property
    def places(self) -> list[str]:
        return sorted(map(_place, self._takers))

    def start(self) -> None:
        """The workers start their measuring processes with their first case."""

    @property
    def _takers(self) -> list[str]:
        """Workers that get cases."""
        some = any(self._admitted.values())
        return [worker for worker, gpu in self._admitted.items() if gpu or not some]

    def run(self, tasks: Sequence[Task], homes: Mapping[Any, str], listener: Listener) -> Iterator[Finished]:
        waiting = deque(_jobs(tasks, self._spread))
        running: dict[str, tuple[Any, Job]] = {}
        ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        losses: Counter[tuple[Any, int]] = Counter()
        while waiting or running:
            self._look_around(listener.note)
            free = max(0, IN_HAND * len(self._takers) - len(running))
            batch = [waiting.popleft() for _ in range(min(free, len(waiting)))]
            for future, job in zip(
                self._submit(remote.measure, [pickle.dumps(job) for job in batch]), batch, strict=True
            ):
                running[future.key] = future, job
                future.add_done_callback(ready.put)
            for key, delivery in self._collect(ready):
                _, job = running.pop(key)
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
        with suppress(OSError, TimeoutError, CancelledError, RuntimeError):  # whoever is gone needs no dismissal
            if self._client.status == "running":
                self._client.run(remote.dismiss, self._ticket, workers=admitted, wait=False, on_error="ignore")
            self._client.close(timeout=1)

    # -- workers

    def _first_catalog(self) -> Mapping[str, Any]:
        """What the plan is made from: the catalog of the first worker that can give one."""
        self._look_around(self._note)
        if not self._admitted and not self._refused:
            self._note(f"{self._address} has no worker yet; waiting for one (Ctrl-C gives up)")
        while True:
            while not self._admitted:
                if self._refused:
                    raise ExecutionError(f"{self._address}: every worker is turned away, see above")
                self._look_around(self._note)
            (future,) = self._submit(remote.catalog)
            with self._noticing():
                worker, catalog, reason = future.result()
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
            present = set(self._client.nthreads())
            for worker in self._admitted.keys() - present:
                note(f"{_place(worker)} is lost; its case is measured again elsewhere")
                del self._admitted[worker]
            if new := sorted(present - self._admitted.keys() - self._refused):
                arguments = (remote.admit, self._ticket, self._files, self._wanted)
                for worker, answer in self._client.run(*arguments, workers=new, on_error="return").items():
                    self._judge(worker, answer, note)
        if self._admitted:
            self._alone_since = now
        elif self._alone_since and now - self._alone_since > ALONE_LIMIT_S:
            raise ExecutionError(f"{self._address}: no worker for {ALONE_LIMIT_S:g} s; --resume goes on")

    def _judge(self, worker: str, answer: Any, note: Callable[[str], None]) -> None:
        """Take note of what a worker says to its admission."""
        if isinstance(answer, BaseException):
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
        self._client.run(remote.dismiss, self._ticket, workers=[worker], wait=False, on_error="ignore")

    # -- dask

    def _submit(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Futures of a call per element of the arguments, or of one call without."""
        count = len(arguments[0]) if arguments else 1
        if not count:
            return []
        keys = [f"{self._ticket}-{uuid.uuid4().hex}" for _ in range(count)]
        tickets = [self._ticket] * count
        resources = {self._ticket: 1} | ({GPU: 1} if any(self._admitted.values()) else {})
        with self._noticing():
            futures: list[Any] = self._client.map(
                function, tickets, *arguments, key=keys, pure=False, resources=resources
            )
        return futures

    def _collect(self, ready: queue.SimpleQueue[Any]) -> list[tuple[str, remote.Delivery]]:
        """The keys and results of futures that are ready, after a moment if none is. Many are fetched at once."""
        with suppress(queue.Empty):
            futures = [ready.get(timeout=LOOK_S)]
            with suppress(queue.Empty):
                while True:
                    futures.append(ready.get_nowait())
            with self._noticing():
                done = [future for future in futures if future.status == "finished"]
                found = dict(zip((future.key for future in done), self._client.gather(done), strict=True))
                for future in futures:
                    if future.status == "error":
                        found[future.key] = _post_mortem(future.exception())
                    elif future.status != "finished":
                        raise CancelledError
                return list(found.items())
        return []

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        """What dask says in many ways when its scheduler has gone. It would try to find it again: a new scheduler at the same
        address knows nothing of this run."""
        try:
            if self._client.status != "running":
                raise CancelledError
            yield
        except (OSError, TimeoutError, CancelledError):
            raise ExecutionError(
                f"{self._address}: the scheduler is gone; --resume goes on, with it or another"
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


def _check(address: str) -> None:
    """Whether dask can make anything of an address: a client that cannot takes long to say so. Raises ValueError or OSError."""
    scheme, _ = distributed.comm.parse_address(address, strict=True)
    if scheme not in distributed.comm.registry.backends:
        raise ValueError(f"{scheme}:// is not a protocol of dask; use tcp:// or tls://")
    security = distributed.Security()
    if scheme == "tls" and not security.get_connection_args("client")["ssl_context"]:
        raise ValueError("dask's configuration has no TLS certificates: see docs/scaling.md")
    if scheme == "tcp" and security.require_encryption:
        raise ValueError("dask's configuration requires encryption: use tls://")


def _post_mortem(error: BaseException) -> remote.Delivery:
    """What is left of a job under which dask has lost as many workers as it puts up with. Raises any other error."""
    if not isinstance(error, distributed.scheduler.KilledWorker):
        raise error
    return remote.Delivery("", gone=f"the dask worker {_place(error.last_worker.address)} died")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _silence() -> None:
    """dask logs what kbench says in a line of its own."""
    for name in ("distributed", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))):
        logging.getLogger(name).setLevel(logging.CRITICAL)
