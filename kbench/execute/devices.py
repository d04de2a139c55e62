"""Measures a plan on several devices of this host, with a worker process for each. A free device takes the next case.

All providers of a case are measured on one device, so that they stay comparable. So are all sessions of a case, unless
the user asks to spread them. A lost device gets no more cases, and `--resume` measures those that it leaves.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kbench.errors import ExecutionError, UsageError, WorkerLost
from kbench.execute.executor import Executor, Finished
from kbench.execute.progress import PlainProgress
from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import CatalogRequest, DeviceInfo, Task
from kbench.results.case import Case
from kbench.text import terminal


class Devices(Executor):
    """`selection` is `all`, or numbers and UUIDs separated by commas. Raises WorkerLost, and UsageError for an unknown
    device."""

    scope = "host"

    def __init__(self, request: CatalogRequest, selection: str, *, spread: bool) -> None:
        self._spread = spread
        # sees all devices, and ends before each gets its own worker
        self._scout = WorkerSupervisor(request)
        try:
            self.catalog = self._scout.start()
            self.devices = choose_devices(selection, self.catalog.devices)
        except BaseException:
            self._scout.stop()
            raise
        self.places = [_place(device) for device in self.devices]
        self._supervisors = [WorkerSupervisor(request, device=device, place=_place(device)) for device in self.devices]

    def try_operator(self, task: Task) -> None:
        self._scout.try_operator(task)

    def run(self, tasks: Sequence[Task], measured_on: Mapping[Case, str], display: PlainProgress) -> Iterator[Finished]:
        self._scout.stop()
        uuids = {device.uuid for device in self.devices}
        placed = {case: uuid for case, uuid in measured_on.items() if uuid in uuids}
        todo = TaskQueue(tasks, None if self._spread else placed)
        results: queue.SimpleQueue[tuple[DeviceInfo, Finished | Exception | None]] = queue.SimpleQueue()

        def work(device: DeviceInfo, supervisor: WorkerSupervisor) -> None:
            """Measure tasks on a device until none is left or the device is lost."""
            try:
                supervisor.start()
                while task := todo.take(device.uuid):
                    results.put((device, supervisor.measure(task, display)))
                results.put((device, None))
            except Exception as error:  # noqa: BLE001  the main thread raises it
                results.put((device, error))

        for arguments in zip(self.devices, self._supervisors, strict=True):
            threading.Thread(target=work, args=arguments, daemon=True).start()
        working, remaining, reason = len(self.devices), len(tasks), ""
        while working:
            device, result = results.get()  # each task has its own time limits
            if isinstance(result, Finished):
                remaining -= 1
                yield result
            else:
                working -= 1
                if isinstance(result, WorkerLost):
                    reason = f"{_place(device)} was lost: {result}"
                    terminal.note(f"{reason}; it gets no more cases")
                elif result is not None:
                    raise result
        if remaining:
            message = f"{remaining} of {len(tasks)} cases are not measured, because {reason}"
            raise ExecutionError(f"{message}; continue with --resume, without this device if it stays lost")

    def stop(self) -> None:
        for supervisor in (self._scout, *self._supervisors):
            supervisor.stop()


class TaskQueue:
    """The tasks that no device has taken. A case belongs to the device that takes its first task, or that `belongs_to` names by
    its UUID; without `belongs_to` a task goes to any device."""

    def __init__(self, tasks: Sequence[Task], belongs_to: dict[Case, str] | None) -> None:
        self._tasks, self._belongs_to = list(tasks), belongs_to
        self._lock = threading.Lock()

    def take(self, device: str) -> Task | None:
        """The next task for a device; None if none is left for it."""
        with self._lock:
            for number, task in enumerate(self._tasks):
                if self._belongs_to is None or self._belongs_to.setdefault(task.case, device) == device:
                    return self._tasks.pop(number)
        return None


def choose_devices(selection: str, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices that `all`, numbers or UUIDs stand for, each once. A UUID may be shortened, or be that of a MIG instance.

    Raises UsageError.
    """
    option = f"--devices {selection}"
    if not devices:
        raise UsageError(f"{option}: there is no accelerator here; leave out --devices to measure on the CPU")
    if selection.strip() == "all":
        return list(devices)
    chosen: dict[str, DeviceInfo] = {}
    for name in (item.strip() for item in selection.split(",")):
        matches = [device for device in devices if str(device.index) == name or _is_uuid(name, device.uuid)]
        # torch lists at most one MIG instance; the worker finds out
        if not matches and name.startswith("MIG-"):
            variable = next(iter(devices[0].variables))
            matches = [replace(devices[0], index=None, uuid=name, variables={variable: name})]
        if len(matches) != 1:
            names = ", ".join(f"{device.index} ({device.uuid})" for device in devices)
            fault = f"several UUIDs of devices begin with {name!r}" if matches else f"no device {name!r}"
            raise UsageError(f"{option}: {fault}; choose from {names}")
        chosen[matches[0].uuid or str(matches[0].index)] = matches[0]
    return list(chosen.values())


def _is_uuid(text: str, uuid: str) -> bool:
    return bool(text) and not text.isdecimal() and uuid.lower().startswith(text.lower())


def _place(device: DeviceInfo) -> str:
    return f"device {device.uuid if device.index is None else device.index}"
