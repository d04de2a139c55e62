"""A device with the worker process that measures on it: one task at a time, whatever happens to the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kbench.config import Curve
from kbench.execute.executor import Device, ExecutionError, Finished, Listener, lost_row
from kbench.execute.plan import Task, traits
from kbench.execute.worker import Worker, WorkerLost
from kbench.results import PROVIDER, Row, Status

UNBLAMED_LIMIT = 2
"""How often a worker may die outside any provider's step before the rest of the case is given up."""

START_LIMIT = 2
"""How often a fresh worker may fail to start before the device counts as lost."""


class DeviceGone(ExecutionError):
    """No worker can be started on the device any more, or only one that is not like those before."""


class Bench:
    """`device` is one of those that a catalog lists, the worker's current one where it is not given; `place` is its name in
    messages. Nothing is started yet."""

    def __init__(
        self,
        plugins: Sequence[str],
        note: Callable[[str], None],
        *,
        device: Device | None = None,
        place: str = "",
    ) -> None:
        self._plugins, self._note, self._device, self._place = list(plugins), note, device, place
        self._session: int | None = None
        self._stopped = False
        self._worker: Worker | None = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Mapping[str, Any]:
        """Start the worker, where there is none, and return its catalog. Raises WorkerLost."""
        if self._worker is None:
            worker = Worker(self._plugins, self._note, self._device["variables"] if self._device else {})
            if self._stopped:
                worker.stop()
                raise DeviceGone("stopped")
            self._worker = worker
        return self._worker.catalog

    def measure(self, task: Task, listener: Listener) -> Finished:
        """Measure a task; every session in a fresh worker.

        A case is measured whole or not at all: when a provider takes the worker down, it gets its row and the others
        are measured together again, in a fresh worker, so that they stay comparable. A worker that was killed from
        outside may be no provider's fault: whoever was running then is blamed when it happens to it again.

        Raises DeviceGone.
        """
        if self._session not in (None, task.session):
            self._end_worker()
        self._session = task.session
        listener.begin(task, self._place)
        machine = self.ready(task).catalog
        return Finished(
            task=task,
            rows=self._rows(task, listener),
            device=self._device or machine["device"],
            machine=machine["environment"],
            place=self._place,
        )

    def check(self, task: Task, listener: Listener) -> Iterator[dict[str, Any]]:
        """Yield one `cell` message per curve and edge input. A cell that kills the worker says so, and the rest goes on."""
        for curve in task.curves:
            if curve.error:
                yield _cell(curve, "random", Status.ERROR, curve.error)
                continue
            skip: list[str] = []
            while True:
                request = task.request("check", [curve]) | {"skip": skip}
                edge = "random"
                try:
                    for event in self.ready(task).ask(request):
                        edge = event.get("edge", edge)
                        listener.event(event, self._place)
                        if event["type"] == "cell":
                            skip.append(edge)
                            yield event | {"curve": curve.name}
                    break
                except WorkerLost as lost:
                    self._worker = None
                    if edge in skip:
                        raise  # not an edge's doing: it would happen again for ever
                    skip.append(edge)
                    yield _cell(curve, edge, lost.status, lost.reason)

    def stop(self) -> None:
        """End the worker, and start no other. Whoever waits for it, in another thread, is told that it is lost."""
        self._stopped = True
        self._end_worker()

    def _end_worker(self) -> None:
        if self._worker:
            self._worker.stop()
            self._worker = None

    def ready(self, task: Task) -> Worker:
        """The worker, which must be what the task was planned for. Raises DeviceGone."""
        failures = 0
        while self._worker is None:
            if self._stopped:
                raise DeviceGone("stopped")
            try:
                self.start()
            except WorkerLost as lost:
                failures += 1
                if failures == START_LIMIT:
                    raise DeviceGone(f"no worker can be started: {lost.reason}") from None
        catalog = self._worker.catalog
        found = traits(catalog, task.case.operator, {curve.provider for curve in task.curves})
        needs = dict(task.needs)
        if self._device:
            found["its UUID"], needs["its UUID"] = catalog["device"]["uuid"], self._device["uuid"]
        for name, wanted in needs.items():
            if found.get(name) != wanted:
                raise DeviceGone(f"{name} is {found.get(name) or 'not known'}, the plan is for {wanted}")
        return self._worker

    def _rows(self, task: Task, listener: Listener) -> list[Row]:
        lost_rows = {c.name: lost_row(task, c, Status.ERROR, c.error) for c in task.curves if c.error}
        spared: set[str] = set()
        unblamed = 0
        while True:
            curves = [c for c in task.curves if c.name not in lost_rows]
            if not curves:
                return [lost_rows[c.name] for c in task.curves]
            worker = self.ready(task)
            try:
                rows = self._ask(worker, task, curves, listener)
                break
            except WorkerLost as lost:
                self._worker = None
                if lost.index is not None and lost.index < len(curves):
                    curve = curves[lost.index]
                    if lost.killed and curve.name not in spared:
                        spared.add(curve.name)
                        if not self._stopped:
                            listener.note(f"{task.case.label}: the worker was {lost.reason}; once more")
                        continue
                    lost_rows[curve.name] = lost_row(task, curve, lost.status, lost.reason)
                    continue
                unblamed += 1
                if unblamed >= UNBLAMED_LIMIT:
                    lost_rows |= {c.name: lost_row(task, c, lost.status, lost.reason) for c in curves}
        measured = {row.curve: row for row in rows if row.role == PROVIDER} | lost_rows
        return [measured[c.name] for c in task.curves] + [row for row in rows if row.role != PROVIDER]

    def _ask(self, worker: Worker, task: Task, curves: Sequence[Curve], listener: Listener) -> list[Row]:
        rows: list[Row] = []
        for event in worker.ask(task.request("measure", curves)):
            if event["type"] == "rows":
                rows = [Row.from_json(data) for data in event["rows"]]
            else:
                listener.event(event, self._place)
        return rows


def _cell(curve: Curve, edge: str, status: Status, reason: str) -> dict[str, Any]:
    return {
        "type": "cell",
        "curve": curve.name,
        "edge": edge,
        "status": status.value,
        "reason": reason,
        "max_ulp": None,
    }
