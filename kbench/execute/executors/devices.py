"""Measures a plan on several devices of this host, with a worker process for each: the next case to the next free device.

Providers of a case are never split: they share a device, so that they stay comparable. All sessions of a case do too,
unless they are to be spread.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kbench.errors import ConfigError, ConfigIssue, DeviceGone, ExecutionError, SourceLocation, WorkerLost
from kbench.execute.executors.interface import LOSS_LIMIT, Device, Finished, Listener, given_up
from kbench.execute.executors.supervisor import Bench
from kbench.execute.plan import Task
from kbench.execute.worker.starting import Plugins
from kbench.execute.worker.worker_process import START_LIMIT_S

UP_LIMIT_S = 2 * START_LIMIT_S
"""How long to wait for the workers of all devices. Each has a limit of its own, which is shorter."""

LOOK_S = 1.0
"""How often to look whether the devices' threads are still there."""


class Devices:
    """`wanted` is `all` or numbers and UUIDs between commas. Raises ConfigError for a device that is not there, WorkerLost."""

    scope = "host"

    def __init__(self, plugins: Sequence[str], note: Callable[[str], None], wanted: str, *, spread: bool) -> None:
        self._spread = spread
        found = Plugins(plugins)
        self._scout = Bench(found, note)  # sees them all, and makes way for one worker on each
        try:
            self.catalog = self._scout.start()
            self.devices = choose(wanted, self.catalog["devices"])
        except BaseException:
            self._scout.stop()
            raise
        self.places = [_place(device) for device in self.devices]
        self._benches = [
            Bench(found.copy(), note, device=device, place=place)
            for device, place in zip(self.devices, self.places, strict=True)
        ]
        self._threads: list[threading.Thread] = []
        self._queue = Queue()
        self._results: queue.Queue[Finished | Exception] = queue.Queue()

    def attempt(self, task: Task) -> None:
        self._scout.attempt(task)

    def start(self) -> None:
        """Start all workers at once. Each belongs to the thread of its device: Linux ends it with that one."""
        self._scout.stop()
        up = [threading.Event() for _ in self.devices]
        self._threads = [
            threading.Thread(target=self._work, args=arguments, daemon=True)
            for arguments in zip(self.devices, self._benches, up, strict=True)
        ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            raise ExecutionError(f"no thread can be started for each device: {error}") from None
        deadline = time.monotonic() + UP_LIMIT_S
        for place, event in zip(self.places, up, strict=True):
            if not event.wait(max(0.0, deadline - time.monotonic())):
                raise ExecutionError(f"{place}: its worker has not started within {UP_LIMIT_S:g} s")

    def run(self, tasks: Sequence[Task], homes: Mapping[Any, str], listener: Listener) -> Iterator[Finished]:
        known = {device["uuid"] for device in self.devices}
        homes = {case: uuid for case, uuid in homes.items() if uuid in known}
        self._listener = listener
        self._queue.fill(tasks, None if self._spread else homes)
        working = len(self.devices)
        for _ in tasks:
            while not isinstance(result := self._next_result(), Finished):
                if not isinstance(result, ExecutionError):
                    raise result
                working -= 1
                if not working:
                    raise ExecutionError(f"{result}; no device is left to measure on; --resume goes on")
                listener.note(f"{result}; its case moves to another device")
            yield result

    def _next_result(self) -> Finished | Exception:
        """What a device says next. Every task of theirs ends within limits of its own. Raises ExecutionError where no thread
        is left that could say something."""
        while True:
            there = any(thread.is_alive() for thread in self._threads)
            try:
                return self._results.get(timeout=LOOK_S)
            except queue.Empty:
                if not there:
                    raise ExecutionError("no device is left to measure on; --resume goes on") from None

    def stop(self) -> None:
        self._queue.close()
        for bench in (self._scout, *self._benches):
            bench.stop()

    def _work(self, device: Device, bench: Bench, up: threading.Event) -> None:
        """What the thread of a device does until there is nothing left to do, or the device is lost."""
        todo, place = self._queue, _place(device)
        try:
            with suppress(WorkerLost, DeviceGone):  # the first task finds out whether it stays like that
                bench.start()
        except Exception as error:  # noqa: BLE001  a bug, which the main thread reports
            self._results.put(error)
            return
        finally:
            up.set()
        while task := todo.take(device["uuid"]):
            try:
                finished = bench.measure(task, self._listener)
            except DeviceGone as gone:
                if todo.give_back(task, device["uuid"]) >= LOSS_LIMIT:
                    reason = f"{LOSS_LIMIT} devices were lost while it was measured, the last one: {gone}"
                    self._results.put(given_up(task, reason, device, self.catalog["environment"], place))
                self._results.put(ExecutionError(f"{place} is lost: {gone}"))
                return
            except Exception as error:  # noqa: BLE001  a bug, which the main thread reports
                self._results.put(error)
                return
            todo.done()
            self._results.put(finished)


class Queue:
    """What is left to do, once it is filled. A case belongs to the device that has begun it, until that is lost."""

    def __init__(self) -> None:
        self._filled = self._closed = False
        self._waiting: list[Task] = []
        self._running = 0
        self._homes: dict[Any, str] | None = {}
        self._losses: Counter[tuple[Any, int]] = Counter()
        self._changed = threading.Condition()

    def fill(self, tasks: Sequence[Task], homes: Mapping[Any, str] | None) -> None:
        """`homes` are the cases that are begun already, and the UUIDs of their devices. With None, no case belongs to one."""
        with self._changed:
            self._filled, self._waiting, self._homes = True, list(tasks), None if homes is None else dict(homes)
            self._changed.notify_all()

    def take(self, device: str) -> Task | None:
        """The next task for a device, None when there is none. Waits while all that is left is running elsewhere, and may
        come back."""
        with self._changed:
            while not self._closed and (self._waiting or self._running or not self._filled):
                for number, task in enumerate(self._waiting):
                    if self._homes is None or self._homes.setdefault(task.case.key, device) == device:
                        self._running += 1
                        return self._waiting.pop(number)
                self._changed.wait(LOOK_S)
            return None

    def done(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def give_back(self, task: Task, device: str) -> int:
        """Free a task, and all cases, of a device that is lost. Returns how often the task has lost one: from LOSS_LIMIT on
        nobody else gets it."""
        with self._changed:
            self._losses[task.case.key, task.session] += 1
            losses = self._losses[task.case.key, task.session]
            if self._homes is not None:
                self._homes = {case: home for case, home in self._homes.items() if home != device}
            if losses < LOSS_LIMIT:
                self._waiting.insert(0, task)
            self._running -= 1
            self._changed.notify_all()
            return losses

    def close(self) -> None:
        """Nobody gets a task any more, whatever comes back from those that are still running."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def choose(wanted: str, devices: Sequence[Device]) -> list[Device]:
    """The devices that `all`, numbers or UUIDs (shortened ones, and those of MIG instances) stand for, each once.

    Raises ConfigError.
    """
    where = SourceLocation(f"--devices {wanted}")
    if not devices:
        raise ConfigError([ConfigIssue(where, "there is no accelerator here; leave it out to measure on the host")])
    if wanted.strip() == "all":
        return list(devices)
    chosen: dict[str, Device] = {}
    problems = []
    for word in (part.strip() for part in wanted.split(",")):
        found = [d for d in devices if word and (str(d["index"]) == word or _is_uuid(word, d["uuid"]))]
        if not found and word.startswith(
            "MIG-"
        ):  # torch lists one MIG instance at most: whether it is there shows later
            variable = next(iter(devices[0]["variables"]))
            found = [{**devices[0], "index": None, "uuid": word, "variables": {variable: word}}]
        if len(found) == 1:
            chosen[found[0]["uuid"] or str(found[0]["index"])] = found[0]
        else:
            there = ", ".join(f"{d['index']} ({d['uuid']})" if d["uuid"] else str(d["index"]) for d in devices)
            fault = f"several devices begin with {word!r}" if found else f"no device {word!r}"
            problems.append(ConfigIssue(where, f"{fault}; there are {there}"))
    if problems:
        raise ConfigError(problems)
    return list(chosen.values())


def _is_uuid(word: str, uuid: str) -> bool:
    return not word.isdecimal() and bool(uuid) and uuid.lower().startswith(word.lower())


def _place(device: Device) -> str:
    return f"device {device['uuid'] if device['index'] is None else device['index']}"
