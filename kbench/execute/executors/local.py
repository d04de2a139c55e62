"""Measures a plan on the current device of this host, one case after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kbench.execute.executors.interface import Device, Finished, Listener
from kbench.execute.executors.supervisor import Bench
from kbench.execute.plan import Task
from kbench.execute.worker.starting import Plugins


class Local:
    """Tasks are measured in their order: all cases of a session, then those of the next. Raises WorkerLost."""

    scope = "device"
    places = ("",)

    def __init__(self, plugins: Sequence[str], note: Callable[[str], None]) -> None:
        self._bench = Bench(Plugins(plugins), note)
        self.catalog = self._bench.start()

    @property
    def devices(self) -> list[Device]:
        return [self.catalog["device"]]

    def attempt(self, task: Task) -> None:
        self._bench.attempt(task)

    def start(self) -> None:
        """The worker that has told what there is goes on to measure."""

    def run(self, tasks: Sequence[Task], homes: Mapping[Any, str], listener: Listener) -> Iterator[Finished]:
        for task in tasks:
            yield self._bench.measure(task, listener)

    def stop(self) -> None:
        self._bench.stop()
