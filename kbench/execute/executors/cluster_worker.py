"""What runs inside a dask worker: it keeps measuring processes, as a run on its own host would, and lends them out.

Everything here is called by cluster.py, through dask. A `Post` is what a worker holds for one run. Its measuring
processes outlive their cases, one for each session: starting one takes longer than a short case does.
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
from kbench.execute.executors.code_identity import Files, differences, identity
from kbench.execute.executors.interface import Finished
from kbench.execute.executors.supervisor import Bench
from kbench.execute.lock import device_key, hold
from kbench.execute.plan import Task
from kbench.execute.worker.starting import Plugins
from kbench.protocol import Message

IDLE_LIMIT_S = 60.0
"""How long measuring processes are kept with nothing to do: the run may have died without saying so."""

_posts: dict[str, Post] = {}
"""By the ticket of their run."""


@dataclass
class Delivery:
    """What comes back of a job: its finished tasks, or in `gone` why its worker is of no further use. `worker` is empty where
    the worker died and nobody is to be dismissed."""

    worker: str
    finished: list[Finished] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    gone: str = ""


async def admit(ticket: str, files: Files, wanted: Mapping[str, str], *, dask_worker: Any) -> dict[str, Any]:
    """Let a worker take part if its code is that of the run. The ticket is a resource of dask's: tasks ask for it, so that
    they reach no other worker, and each has it once, so that it measures one case at a time."""
    found = differences(wanted, identity(files))
    if not found:
        _posts[ticket] = Post(dask_worker.address, [str(files.find(name)) for name in files.plugins])
        await dask_worker.set_resources(**{ticket: 1})
    return {"differences": found, "resources": list(dask_worker.state.total_resources)}


async def dismiss(ticket: str, *, dask_worker: Any) -> None:
    """End what a worker does for a run. Only the scheduler is told that the ticket is spent: what it has sent here already
    still runs, and is given back at once."""
    if post := _posts.pop(ticket, None):
        spent = {**dask_worker.state.total_resources, ticket: 0}
        await dask_worker.scheduler.set_resources(resources=spent, worker=dask_worker.contact_address)
        threading.Thread(
            target=post.stop
        ).start()  # the killed may take a while, and the event loop has others to serve


def catalog(ticket: str) -> tuple[str, Mapping[str, Any], str]:
    """The worker, what a measuring process there reports, and why there is none: one of the two is empty."""
    post = _posts[ticket]
    try:
        return post.worker, post.catalog(), ""
    except (WorkerLost, DeviceGone) as lost:
        return post.worker, {}, str(lost)


def measure(ticket: str, job: bytes) -> Delivery:
    """Measure the tasks of a pickled job, one after the other. (dask looks into lists, and leaves bytes alone.)"""
    post = _posts.get(ticket)
    tasks: list[Task] = pickle.loads(job)
    return post.measure(tasks) if post else Delivery(distributed.get_worker().address, gone="dismissed")


class Post:
    def __init__(self, worker: str, plugins: list[str]) -> None:
        self.worker, self._plugins = worker, Plugins(plugins)
        self._benches: dict[int, Bench] = {}
        self._notes: list[str] = []
        self._stopped = self._waited = False
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def catalog(self) -> Mapping[str, Any]:
        with self._busy():
            return self._bench(0).start()

    def measure(self, tasks: list[Task]) -> Delivery:
        with self._busy():
            self._notes = []
            delivery, listener = Delivery(self.worker, notes=self._notes), _Notes(self._note)
            try:
                for task in tasks:
                    bench = self._bench(task.session)
                    device = bench.ready(task).catalog["device"]
                    with hold(device_key(device), device["name"], wait=True, note=self._say_that_it_waits):
                        delivery.finished.append(bench.measure(task, listener))
            except DeviceGone as gone:
                delivery.finished, delivery.gone = [], str(gone)
        return delivery

    def stop(self) -> None:
        self._stopped = True
        for bench in list(self._benches.values()):
            bench.stop()

    def _bench(self, session: int) -> Bench:
        if session not in self._benches:
            self._benches[session] = Bench(self._plugins, self._note, place=self.worker.partition("://")[2])
        if self._stopped:
            self.stop()
        return self._benches[session]

    def _say_that_it_waits(self, line: str) -> None:
        """Once: where several workers share a device, or a host that has none, it is so at every case."""
        if not self._waited:
            self._notes.append(f"takes turns: {line.partition('; ')[0]}")
        self._waited = True

    def _note(self, line: str) -> None:
        self._notes.append(line)

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """One at a time, and a clock that runs when there is nobody."""
        with self._lock:
            if self._timer:
                self._timer.cancel()
            try:
                yield
            finally:
                self._timer = threading.Timer(IDLE_LIMIT_S, self._rest)
                self._timer.daemon = True
                self._timer.start()

    def _rest(self) -> None:
        with self._lock:
            for bench in self._benches.values():
                bench.stop()
            self._benches = {}


class _Notes:
    """Hears what measuring reports. Only notes are worth a way over the network."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note

    def begin(self, task: Task, place: str) -> None:
        return None

    def event(self, event: Message, place: str) -> None:
        return None
