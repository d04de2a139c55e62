"""The dask workers that take part in a run: new ones register or are refused, lost and silent ones are dropped."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kbench.config.load import Config
from kbench.errors import ExecutionError
from kbench.execute.executors import cluster_worker
from kbench.execute.executors.code_identity import RunFiles, identify_code
from kbench.execute.executors.dask_scheduler import scheduler_errors
from kbench.execute.supervision.time_limits import Pulse, call_all_within, call_within

PULSE_S = 5.0
"""How often to check that workers are alive. Each reports to the scheduler every few seconds."""

SILENT_LIMIT_S = 30.0
"""How long a worker may not report to its scheduler before kbench counts it as lost. dask waits for minutes."""

ALONE_LIMIT_S = 300.0
"""How long a run that has lost its last worker waits for another: a queueing system may start one."""

GPU = "GPU"
"""The resource that dask workers with a GPU usually declare (`--resources GPU=1`). When any worker of a cluster declares it,
jobs go to such workers only and take the resource, so that no other task uses the device at the same time."""

WORKER_SEARCH_S = 1.0
"""How often to look for new workers."""

ANSWER_LIMIT_S = 12.0
"""How long a scheduler or a worker may take to answer a short question."""


class Members:
    """The workers of a scheduler, as far as they take part in a run.

    ticket   identifies the run; registered workers declare it as a resource of dask
    refused  workers that get no more jobs
    silent   refused workers to which the scheduler still gives jobs
    """

    def __init__(self, client: Any, address: str, config: Config) -> None:
        self._client, self._address = client, address
        self.ticket = f"kbench-{uuid.uuid4().hex[:12]}"
        self._files = RunFiles.of(config.path, config.plugins)
        self._wanted = identify_code(self._files)
        self.registered: dict[str, bool] = {}  # whether each declares a GPU
        self.refused: set[str] = set()
        self.silent: set[str] = set()
        self._pulse = Pulse(SILENT_LIMIT_S)
        self._next_look = self._next_pulse = self._alone_since = 0.0

    @property
    def takers(self) -> list[str]:
        """The workers that get jobs."""
        some = any(self.registered.values())
        return [worker for worker, gpu in self.registered.items() if gpu or not some]

    @property
    def resources(self) -> dict[str, int]:
        """The resources of dask that a job requires."""
        return {self.ticket: 1} | ({GPU: 1} if any(self.registered.values()) else {})

    def update(self, note: Callable[[str], None]) -> None:
        """Register or refuse new workers, and drop lost ones. Raises ExecutionError when there was none for ALONE_LIMIT_S."""
        now = time.monotonic()
        if now < self._next_look:
            if not self.registered:
                time.sleep(self._next_look - now)
            return
        self._next_look = now + WORKER_SEARCH_S
        with scheduler_errors(self._client, self._address):
            present = set(call_within(ANSWER_LIMIT_S, self._client.nthreads))
        for worker in self.registered.keys() - present:
            note(f"{display_name(worker)} was lost; if it was measuring a case, the case goes to another worker")
            del self.registered[worker]
        self.silent &= present
        for worker, answer in self._register(sorted(present - self.registered.keys() - self.refused)).items():
            self._judge(worker, answer, note)
        if now >= self._next_pulse:
            self._next_pulse = now + PULSE_S
            self._drop_silent(now, note)
        if self.registered:
            self._alone_since = now
        elif self._alone_since and now - self._alone_since > ALONE_LIMIT_S:
            raise ExecutionError(
                f"{self._address}: the run has had no worker for {ALONE_LIMIT_S:g} s; start some and continue with --resume"
            )

    def _register(self, workers: Sequence[str]) -> dict[str, Any]:
        """Ask workers to take part. Returns each one's `Registration`, or the exception that it raised."""
        arguments = (cluster_worker.register, self.ticket, self._files, self._wanted)
        if self._client.status != "running":
            return {}

        def register(worker: str) -> Any:
            return self._client.run(*arguments, workers=[worker], on_error="return").get(
                worker, OSError("the worker is gone")
            )

        return call_all_within(ANSWER_LIMIT_S, {worker: partial(register, worker) for worker in workers})

    def _drop_silent(self, now: float, note: Callable[[str], None]) -> None:
        """Drop workers that no longer report to the scheduler: stopped ones, and those whose network has failed."""
        with scheduler_errors(self._client, self._address):
            known = call_within(ANSWER_LIMIT_S, partial(self._client.scheduler_info, n_workers=-1))["workers"]
        signs = {worker: known[worker]["last_seen"] for worker in self.registered if worker in known}
        for worker in self._pulse.find_silent(signs, now):
            note(
                f"{display_name(worker)} has not reported for {SILENT_LIMIT_S:g} s; if it was measuring a case, the case goes "
                "to another worker"
            )
            del self.registered[worker]
            self.refused.add(worker)
            self.silent.add(worker)

    def _judge(self, worker: str, answer: Any, note: Callable[[str], None]) -> None:
        """Accept or refuse a worker, by its answer."""
        if isinstance(answer, TimeoutError):
            reasons = [str(answer)]
        elif isinstance(answer, BaseException):
            reasons = [f"kbench failed to start there ({type(answer).__name__}: {answer})"]
        else:
            reasons = answer.differences
        if reasons:
            self.refused.add(worker)
            note(f"{display_name(worker)} is refused: {'; '.join(reasons)}")
            return
        self.registered[worker] = GPU in answer.resources

    def release(self, worker: str, reason: str, note: Callable[[str], None]) -> None:
        """Give a worker no more jobs, and end its part in the run."""
        note(f"{display_name(worker)} gets no more cases: {reason}")
        self.registered.pop(worker, None)
        self.refused.add(worker)
        leave = partial(
            self._client.run, cluster_worker.release, self.ticket, workers=[worker], wait=False, on_error="ignore"
        )
        with suppress(TimeoutError):  # the worker may be silent; otherwise it gives back its jobs at once
            call_within(ANSWER_LIMIT_S, leave)

    def leave(self) -> None:
        """End the part of all workers in the run, without waiting for them."""
        workers, self.registered = list(self.registered), {}
        if self._client.status == "running" and workers:
            self._client.run(cluster_worker.release, self.ticket, workers=workers, wait=False, on_error="ignore")


def display_name(worker: str) -> str:
    """`tcp://10.0.0.7:40123` in progress and messages."""
    return worker.partition("://")[2] or worker
