"""Tries configurations alone, each in a worker of its own, several at a time. A configuration that takes its worker down, or
hangs, then costs no other configuration anything, and several hangs take no longer than one.

Nothing is timed here. The configurations that survive are measured together afterwards, when no other worker is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kbench.errors import DeviceGone, WorkerLost
from kbench.execute.plan import Task
from kbench.execute.supervision.time_limits import call_all_within
from kbench.execute.worker.worker_failed import WorkerFailed
from kbench.execute.worker.worker_process import SILENCE_LIMIT_S, START_LIMIT_S, Worker
from kbench.protocol import Catalog, Configuration

MOST_WORKERS = 8
"""Workers at a time on one accelerator."""

CORES_EACH = 2
"""Cores for each of these workers. With fewer, compilers that run beside each other could exceed `build_timeout_s`."""

CONTEXT_BYTES = 1 << 30
"""Device memory that a worker takes besides the tensors of a case: the driver's context, and loaded kernels."""

Start = Callable[[Task], Worker]
"""Starts a worker that fits the plan of a task. Raises WorkerLost and DeviceGone."""


class Alone:
    """`start` makes each worker. Another thread may call `stop`, which ends them all."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._workers: list[Worker] = []
        self._stopped = False

    def try_each(self, task: Task, configurations: Sequence[Configuration], most: int) -> dict[str, WorkerFailed]:
        """The configurations, by name, that take their worker down while they are built or checked. At most `most` workers
        run at a time.

        A configuration is not among them when its worker cannot be started, or is killed from outside.
        """
        limit_s = START_LIMIT_S + SILENCE_LIMIT_S + task.settings.build_timeout_s + task.settings.timeout_s
        found: dict[str, WorkerFailed] = {}
        for begin in range(0, len(configurations), most):
            batch = configurations[begin : begin + most]
            results = call_all_within(limit_s, {one.name: partial(self._try, task, one) for one in batch})
            for name, result in results.items():
                if isinstance(result, WorkerFailed):
                    found[name] = result
                elif isinstance(result, Exception) and not isinstance(result, TimeoutError):
                    raise result  # a bug
        return found

    def stop(self) -> None:
        self._stopped = True
        for worker in list(self._workers):
            worker.stop()

    def _try(self, task: Task, one: Configuration) -> WorkerFailed | None:
        """How the configuration takes its worker down; None if it does not."""
        try:
            worker = self._start(task)
        except (WorkerLost, DeviceGone):
            return None
        self._workers.append(worker)
        try:
            if not self._stopped:
                for _ in worker.ask(task.measure_request([one], check_only=True)):
                    pass
        except WorkerFailed as lost:
            return None if lost.killed or self._stopped else lost
        finally:
            worker.stop()
            worker.wait_for_end(lambda: self._stopped)
            self._workers.remove(worker)
        return None


def count_workers(catalog: Catalog, task: Task) -> int:
    """How many workers may try configurations of a task at the same time. One on a host, where each may take most of the
    memory."""
    accelerator, operator = catalog.machine.accelerator, catalog.operators.get(task.case.operator)
    if accelerator is None or operator is None or not accelerator.total_memory:
        return 1
    each = CONTEXT_BYTES + operator.needed_bytes(task.case)
    cores = catalog.machine.cpu_count or 1
    return max(1, min(MOST_WORKERS, cores // CORES_EACH, accelerator.total_memory // each))
