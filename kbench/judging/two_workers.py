"""The two workers of a judgement: one runs the file of the candidates, and the other judges what they deliver.

The second never imports that file, unless the config names it. It describes the operator, draws the inputs and compares the
outputs. What a candidate replaces in its own process cannot make wrong outputs right.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kbench.errors import WorkerLost
from kbench.execute.progress import PlainProgress
from kbench.execute.supervisor import WorkerSupervisor
from kbench.execute.worker import KILLED_LIMIT_S, STOP_LIMIT_S
from kbench.protocol import Catalog, CatalogRequest, OperatorInfo, Task
from kbench.results.row import Row
from kbench.text import terminal

HOST_BYTES, DEVICE_BYTES, DEVICE_SHARE = 2**26, 2**30, 16
"""A case is judged apart if its inputs and outputs have at most so many bytes on a host or a device, and at most this part (a
sixteenth) of the memory of the device. All random shapes have fewer, except for the one beyond 2^31 elements."""

NEEDED_BYTES = 2**30
"""The memory that each process has to find: for inputs, outputs, copies, and expected values in float64 of a random shape."""


class TwoWorkers:
    """The workers, which import these plug-ins and load the problem, if there is one. Use it with `with`: it ends them."""

    def __init__(self, plugins: Sequence[str], trusted_plugins: Sequence[str], source: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kbench-")
        self._request = CatalogRequest(tuple(plugins), source, NEEDED_BYTES)
        self._trusted_request = CatalogRequest(tuple(trusted_plugins), source, NEEDED_BYTES, self._folder.name)
        self._candidates = WorkerSupervisor(self._request)
        self._judge = WorkerSupervisor(self._trusted_request, candidates=self._candidates)
        self._judge_catalog: Catalog | None = None  # None: the device takes only one process
        self.timing: WorkerSupervisor | None = None
        """A third worker, which will time. Nobody waits for it before."""
        self.apart = True
        """Whether the second worker judges. Otherwise the worker of the candidates does."""

    def __enter__(self) -> TwoWorkers:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop(0.0)  # nobody needs their memory any more
        self._folder.cleanup()

    @property
    def judge(self) -> WorkerSupervisor:
        return self._judge if self.apart else self._candidates

    def stop(self, limit_s: float = STOP_LIMIT_S) -> None:
        """End the workers, all at the same time: the driver may take a while to free what each holds."""
        stopping = [
            threading.Thread(target=worker.stop, args=(limit_s,))
            for worker in (self._candidates, self._judge, self.timing)
            if worker
        ]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(KILLED_LIMIT_S)

    def begin_timing(self) -> None:
        """Begin to start the worker that will time, beside the checks, unless it has begun."""
        request = CatalogRequest(self._request.plugins, self._request.source)
        self.timing = self.timing or WorkerSupervisor(request)
        self.timing.begin()

    def start(self) -> Catalog:
        """The catalog of the worker that judges, with the providers of the other. The file of the candidates may say nothing of
        an operator, unless it defines that. Raises WorkerLost."""
        try:
            catalog, judge = _start_both(self._candidates, self._judge)
        except WorkerLost:
            self.stop()
            if self._device_takes_two():
                raise
            self._candidates = WorkerSupervisor(self._request)
            return self._candidates.start()
        self._judge_catalog = judge
        described = {name: replace(info, providers=catalog.providers(name)) for name, info in judge.operators.items()}
        return replace(judge, operators={**catalog.operators, **described}, plugin_errors=catalog.plugin_errors)

    def _device_takes_two(self) -> bool:
        """Whether two processes can use the device that do not import the file: what that does to the other decides nothing."""
        first, second = (WorkerSupervisor(self._trusted_request) for _ in range(2))
        with first, second:
            try:
                _start_both(first, second)
            except WorkerLost:
                return False
        return True

    def settle(self, operator: str) -> None:
        """Decide who judges the providers of an operator, and say why if it is the process that runs them."""
        why = ""
        if self._judge_catalog is None:
            why = "the device takes one process at a time (compute mode EXCLUSIVE_PROCESS, or too little free memory for two)"
        elif operator not in self._judge_catalog.operators:
            why = f"the file defines {operator}; to judge it apart, define that in a file that the config names under plugins:"
        self.apart = not why
        if why:
            terminal.note(f"one process runs the file and judges it, and no other clock checks its times: {why}")

    def check(self, task: Task, display: PlainProgress, info: OperatorInfo, *, without_edges: bool) -> Iterator[Row]:
        """Rows as `WorkerSupervisor.check` yields them."""
        small = info.tensor_bytes(task.case) <= self._most_bytes()
        return (self.judge if small else self._candidates).check(task, display, without_edges=without_edges)

    def slow_reference_s(self) -> float:
        """How long the reference of a problem has taken so far. 0 for other operators."""
        return self._candidates.reference_s + self._judge.reference_s if self._request.source else 0.0

    def _most_bytes(self) -> int:
        catalog = self._judge_catalog
        if catalog is None or catalog.device.type == "cpu":
            return HOST_BYTES
        return min(DEVICE_BYTES, (catalog.memory_bytes or 0) // DEVICE_SHARE)


def _start_both(candidates: WorkerSupervisor, judge: WorkerSupervisor) -> tuple[Catalog, Catalog]:
    """Start both at the same time. Raises WorkerLost."""
    candidates.begin()
    judge.begin()
    return candidates.start(), judge.start()
