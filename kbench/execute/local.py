"""Measures a plan on the current device of this host, one case after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kbench.execute.executor import Finished, Listener
from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import CatalogRequest, DeviceInfo, Task
from kbench.results.case import Case


class Local:
    """Measures tasks in their order: all cases of a session, then those of the next. Raises WorkerLost."""

    scope = "device"
    places = ("",)

    def __init__(self, request: CatalogRequest, note: Callable[[str], None]) -> None:
        self._supervisor = WorkerSupervisor(request, note)
        self.catalog = self._supervisor.start()

    @property
    def devices(self) -> list[DeviceInfo]:
        return [self.catalog.device]

    def try_operator(self, task: Task) -> None:
        self._supervisor.try_operator(task)

    def run(self, tasks: Sequence[Task], measured_on: Mapping[Case, str], listener: Listener) -> Iterator[Finished]:
        for task in tasks:
            yield self._supervisor.measure(task, listener)

    def stop(self) -> None:
        self._supervisor.stop()
