"""The two workers of a judgement: one runs the file of the candidates, and the other judges what they deliver.

The second never imports that file, unless the config names it. It describes the operator, draws the inputs and compares the
outputs. What a candidate replaces in its own process cannot make wrong outputs right.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from kbench.errors import DeviceGone, WorkerLost
from kbench.execute.executor import Listener
from kbench.execute.supervisor import WorkerSupervisor
from kbench.protocol import Catalog, CatalogRequest, ClockReading, ClockRequest, OperatorInfo, Task
from kbench.results.row import Row

HOST_BYTES, DEVICE_BYTES, DEVICE_SHARE = 2**26, 2**30, 16
"""The most bytes of inputs and outputs of a case that is judged apart, on a host and on a device, and the most of the device's
memory. All random shapes have fewer, but for that beyond 2^31 elements."""

NEEDED_BYTES = 2**30
"""The memory that each process has to find: for inputs, outputs, copies, and expected values in float64 of a random shape."""


class TwoWorkers:
    """The workers, which import these plug-ins and load the problem, if there is one. Use it with `with`: it ends them.

    On a device that takes only one process, one worker runs the candidates and judges them."""

    def __init__(
        self, plugins: Sequence[str], trusted_plugins: Sequence[str], source: str, note: Callable[[str], None]
    ) -> None:
        self._requests = [CatalogRequest(tuple(names), source, NEEDED_BYTES) for names in (plugins, trusted_plugins)]
        self._note = note
        self._candidates, self._judge = self._supervisors(*self._requests)
        self._folder = tempfile.TemporaryDirectory(prefix="kbench-")
        self._judge_catalog: Catalog | None = None  # None: the device takes only one process

    def _supervisors(self, *requests: CatalogRequest) -> list[WorkerSupervisor]:
        return [WorkerSupervisor(request, self._note) for request in requests]

    def __enter__(self) -> TwoWorkers:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self._folder.cleanup()

    def stop(self) -> None:
        """End both workers."""
        for worker in (self._candidates, self._judge):
            worker.stop()

    def start(self) -> Catalog:
        """The catalog of the worker that judges, with the providers of the other. The file of the candidates may say nothing of
        an operator, unless it defines that. Raises WorkerLost."""
        try:
            catalog, judge = self._start_both(self._candidates, self._judge)
        except WorkerLost:
            self.stop()
            if self._device_takes_two():
                raise
            self._candidates, self._judge = self._supervisors(*self._requests)
            return self._candidates.start()
        self._judge_catalog = judge
        described = {name: replace(info, providers=catalog.providers(name)) for name, info in judge.operators.items()}
        return replace(judge, operators={**catalog.operators, **described}, plugin_errors=catalog.plugin_errors)

    def _start_both(self, candidates: WorkerSupervisor, judge: WorkerSupervisor) -> tuple[Catalog, Catalog]:
        """Start both at the same time. Raises WorkerLost."""

        def start_judge() -> None:
            with suppress(WorkerLost, DeviceGone):  # it is started again below
                judge.start()

        starting = threading.Thread(target=start_judge, daemon=True)
        starting.start()
        try:
            catalog = candidates.start()
        finally:
            starting.join()
        return catalog, judge.start()

    def _device_takes_two(self) -> bool:
        """Whether two processes can use the device that do not import the file: what that does to the other decides nothing."""
        first, second = self._supervisors(self._requests[1], self._requests[1])
        with first, second:
            try:
                self._start_both(first, second)
            except WorkerLost:
                return False
        return True

    def why_in_one_process(self, operator: str) -> str:
        """Why the process of the candidates judges them. Empty if another one does."""
        if self._judge_catalog is None:
            return "the device takes one process at a time (compute mode EXCLUSIVE_PROCESS, or too little free memory for two)"
        if operator not in self._judge_catalog.operators:
            return f"the file defines {operator}; to judge it apart, define that in a file that the config names under plugins:"
        return ""

    def check(self, task: Task, listener: Listener, info: OperatorInfo, *, without_edges: bool) -> Iterator[Row]:
        """Rows as `WorkerSupervisor.check` yields them."""
        if self.why_in_one_process(task.case.operator) or info.tensor_bytes(task.case) > self._most_bytes():
            return self._candidates.check(task, listener, without_edges=without_edges)
        return self._judge.check(
            task, listener, without_edges=without_edges, candidates=self._candidates, folder=self._folder.name
        )

    def _most_bytes(self) -> int:
        catalog = self._judge_catalog
        if catalog is None or catalog.device.type == "cpu":
            return HOST_BYTES
        return min(DEVICE_BYTES, (catalog.memory_bytes or 0) // DEVICE_SHARE)

    def read_clock(self, task: Task, claimed_ms: float, listener: Listener, *, here: bool) -> ClockReading:
        """What the clock of the process that judges says of the only configuration of a task, which runs there if `here`."""
        request = ClockRequest(task, claimed_ms, here, self._folder.name)
        reading = self._judge.read_clock(request, listener, self._candidates)
        if reading.least_ms is None and (here or not reading.wrong):
            self._note(f"{task.case.label}: no other clock could take the time of {task.configurations[0].name}")
        return reading

    def try_operator(self, task: Task) -> None:
        """Call the operator's own functions, as `WorkerSupervisor.try_operator` does."""
        worker = self._candidates if self.why_in_one_process(task.case.operator) else self._judge
        worker.try_operator(replace(task, requirements={}))
