"""Measures a plan on several devices of this host, with a worker process for each. A free device gets the next case.

All providers of a case are measured on one device, so that they stay comparable. So are all sessions of a case, unless
the user asks to spread them.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kbench.errors import DeviceGone, ExecutionError, UsageError, WorkerLost
from kbench.execute.executor import LOSS_LIMIT, Finished, Listener, give_up
from kbench.execute.plan import Task
from kbench.execute.supervision.fit import Misfit
from kbench.execute.supervision.supervisor import WorkerSupervisor
from kbench.execute.worker.starting import PluginFiles
from kbench.execute.worker.worker_process import START_LIMIT_S
from kbench.protocol import DeviceInfo

UP_LIMIT_S = 2 * START_LIMIT_S
"""How long to wait until all workers have started. Each also has its own, shorter limit."""

THREAD_CHECK_S = 1.0
"""How often to check that the devices' threads are alive."""


class Devices:
    """`wanted` is `all`, or numbers and UUIDs separated by commas. Raises UsageError for an unknown device, and WorkerLost."""

    scope = "host"

    def __init__(self, plugins: PluginFiles, note: Callable[[str], None], wanted: str, *, spread: bool) -> None:
        self._spread = spread
        self._scout = WorkerSupervisor(plugins, note)  # sees all devices, and ends before each gets its own worker
        try:
            self.catalog = self._scout.start()
            self.devices = choose_devices(wanted, self.catalog.devices)
        except BaseException:
            self._scout.stop()
            raise
        self.places = [_place(device) for device in self.devices]
        self._supervisors = [
            WorkerSupervisor(plugins.copy(), note, device=device, place=place)
            for device, place in zip(self.devices, self.places, strict=True)
        ]
        self._threads: list[threading.Thread] = []
        self._queue = TaskQueue()
        self._results: queue.Queue[Finished | Exception] = queue.Queue()

    def try_operator(self, task: Task) -> None:
        self._scout.try_operator(task)

    def start(self) -> None:
        """Start all workers at once, each in the thread of its device: Linux ends a worker with the thread that started it."""
        self._scout.stop()
        up = [threading.Event() for _ in self.devices]
        self._threads = [
            threading.Thread(target=self._work, args=arguments, daemon=True)
            for arguments in zip(self.devices, self._supervisors, up, strict=True)
        ]
        try:
            for thread in self._threads:
                thread.start()
        except RuntimeError as error:
            raise ExecutionError(
                f"cannot start a thread for each device ({error}); choose fewer devices, or raise `ulimit -u`"
            ) from None
        deadline = time.monotonic() + UP_LIMIT_S
        for place, event in zip(self.places, up, strict=True):
            if not event.wait(max(0.0, deadline - time.monotonic())):
                raise ExecutionError(
                    f"{place}: its worker has not started within {UP_LIMIT_S:g} s; choose other devices with --devices"
                )

    def run(self, tasks: Sequence[Task], homes: Mapping[Any, str], listener: Listener) -> Iterator[Finished]:
        known = {device.uuid for device in self.devices}
        homes = {case: uuid for case, uuid in homes.items() if uuid in known}
        self._listener = listener
        self._queue.fill(tasks, None if self._spread else homes)
        working = len(self.devices)
        for _ in tasks:
            while not isinstance(result := self._next_result(), Finished):
                if not isinstance(result, _DeviceLost):
                    raise result
                working -= 1
                if not working:
                    raise ExecutionError(f"{result}; {result.remedy}")
                listener.note(f"{result}; {result.then}")
            yield result

    def _next_result(self) -> Finished | Exception:
        """The next result of any device. Waits without a limit, because every task has its own limits. Raises ExecutionError
        when no thread is alive."""
        while True:
            alive = any(thread.is_alive() for thread in self._threads)
            try:
                return self._results.get(timeout=THREAD_CHECK_S)
            except queue.Empty:
                if not alive:
                    raise ExecutionError("no device is left to measure on; continue with --resume") from None

    def stop(self) -> None:
        self._queue.close()
        for supervisor in (self._scout, *self._supervisors):
            supervisor.stop()

    def _work(self, device: DeviceInfo, supervisor: WorkerSupervisor, up: threading.Event) -> None:
        """Measure tasks on a device until none is left or the device is lost. Each device has a thread that runs this."""
        todo, place = self._queue, _place(device)
        try:
            with suppress(WorkerLost, DeviceGone):  # the first task tries again
                supervisor.start()
        except Exception as error:  # noqa: BLE001  a bug: the main thread raises it
            self._results.put(error)
            return
        finally:
            up.set()
        while task := todo.take(device.uuid):
            try:
                finished = supervisor.measure(task, self._listener)
            except DeviceGone as gone:
                what, remedy = f"{place} was lost: {gone}", "no device is left to measure on; continue with --resume"
                if isinstance(gone, Misfit):
                    what = f"{place} stopped measuring: {gone.what}"
                    remedy = f"{gone.remedy} and continue with --resume, or start a new run"
                then = "its case moves to another device"
                if todo.give_back(task, device.uuid, lost=not isinstance(gone, Misfit)) >= LOSS_LIMIT:
                    then = f"its case is given up, because {LOSS_LIMIT} devices were lost while they measured it"
                    reason = f"{LOSS_LIMIT} devices were lost while they measured this case; the last error: {gone}"
                    self._results.put(give_up(task, reason, device, self.catalog.machine, place))
                self._results.put(_DeviceLost(what, then, remedy))
                return
            except Exception as error:  # noqa: BLE001  a bug: the main thread raises it
                self._results.put(error)
                return
            todo.done()
            self._results.put(finished)


class _DeviceLost(ExecutionError):
    """A device was lost, or no longer fits the plan. `then` says what becomes of the case that it measured, `remedy` what to
    do if no other device is left."""

    def __init__(self, message: str, then: str, remedy: str) -> None:
        super().__init__(message)
        self.then, self.remedy = then, remedy


class TaskQueue:
    """The tasks that are left. A case belongs to the device that takes its first task, until that device is lost."""

    def __init__(self) -> None:
        self._filled = self._closed = False
        self._waiting: list[Task] = []
        self._running = 0
        self._homes: dict[Any, str] | None = {}
        self._losses: Counter[tuple[Any, int]] = Counter()
        self._changed = threading.Condition()

    def fill(self, tasks: Sequence[Task], homes: Mapping[Any, str] | None) -> None:
        """Add the tasks. `homes` maps cases to the UUIDs of the devices that they belong to; None lets every task go to any
        device."""
        with self._changed:
            self._filled, self._waiting, self._homes = True, list(tasks), None if homes is None else dict(homes)
            self._changed.notify_all()

    def take(self, device: str) -> Task | None:
        """The next task for a device; None when none is left. Waits while other devices may give tasks back."""
        with self._changed:
            while not self._closed and (self._waiting or self._running or not self._filled):
                for number, task in enumerate(self._waiting):
                    if self._homes is None or self._homes.setdefault(task.case.key, device) == device:
                        self._running += 1
                        return self._waiting.pop(number)
                self._changed.wait(THREAD_CHECK_S)
            return None

    def done(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def give_back(self, task: Task, device: str, *, lost: bool = True) -> int:
        """Take back the task of a lost device, and free the cases that belong to it. Returns how many devices were lost while
        they measured the task; from LOSS_LIMIT on no other device gets it. `lost` is False for a device that no longer fits
        the plan: that is not the fault of the task."""
        with self._changed:
            self._losses[task.case.key, task.session] += lost
            losses = self._losses[task.case.key, task.session]
            if self._homes is not None:
                self._homes = {case: home for case, home in self._homes.items() if home != device}
            if losses < LOSS_LIMIT:
                self._waiting.insert(0, task)
            self._running -= 1
            self._changed.notify_all()
            return losses

    def close(self) -> None:
        """Give out no more tasks, even if running ones are given back."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def choose_devices(wanted: str, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices that `all`, numbers or UUIDs stand for, each once. A UUID may be shortened, or be that of a MIG instance.

    Raises UsageError.
    """
    option = f"--devices {wanted}"
    if not devices:
        raise UsageError(f"{option}: there is no accelerator here; leave out --devices to measure on the CPU")
    if wanted.strip() == "all":
        return list(devices)
    chosen: dict[str, DeviceInfo] = {}
    problems = []
    for word in (part.strip() for part in wanted.split(",")):
        found = [device for device in devices if word and (str(device.index) == word or _is_uuid(word, device.uuid))]
        if not found and word.startswith("MIG-"):  # torch lists at most one MIG instance; the worker finds out
            variable = next(iter(devices[0].variables))
            found = [replace(devices[0], index=None, uuid=word, variables={variable: word})]
        if len(found) == 1:
            chosen[found[0].uuid or str(found[0].index)] = found[0]
        else:
            names = ", ".join(f"{one.index} ({one.uuid})" if one.uuid else str(one.index) for one in devices)
            fault = f"several UUIDs of devices begin with {word!r}" if found else f"no device {word!r}"
            problems.append(f"{option}: {fault}; choose from {names}")
    if problems:
        raise UsageError("\n".join(problems))
    return list(chosen.values())


def _is_uuid(word: str, uuid: str) -> bool:
    return not word.isdecimal() and bool(uuid) and uuid.lower().startswith(word.lower())


def _place(device: DeviceInfo) -> str:
    return f"device {device.uuid if device.index is None else device.index}"
