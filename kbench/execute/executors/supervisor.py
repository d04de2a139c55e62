"""A device with the worker process that measures on it: one task at a time, whatever happens to the process."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kbench.config.load import Curve
from kbench.errors import ConfigError, ConfigIssue, DeviceGone, SourceLocation, WorkerLost
from kbench.execute.executors.interface import Device, Finished, Listener, lost_row
from kbench.execute.plan import Task, traits
from kbench.execute.worker.starting import Plugins
from kbench.execute.worker.starting import start as start_worker
from kbench.execute.worker.worker_process import NONSENSE, Worker
from kbench.protocol import Begin, Cell, Fault, Rows
from kbench.results.row import CONTROL, PROVIDER, Row, Status, format_params
from kbench.text.printable import REASON_LIMIT, printable

UNBLAMED_LIMIT = 2
"""How often a worker may die outside any provider's step before the rest of the case is given up."""

START_LIMIT = 2
"""How often a fresh worker may fail to start before the device counts as lost."""


CONTROLS = {"copy", "empty", "repeat"}
"""The rows that kbench adds to a case that is timed."""


class Bench:
    """`device` is one of those that a catalog lists, the worker's current one where it is not given; `place` is its name in
    messages. Nothing is started yet."""

    def __init__(
        self,
        plugins: Plugins,
        note: Callable[[str], None],
        *,
        device: Device | None = None,
        place: str = "",
    ) -> None:
        self._plugins, self._note, self._device, self._place = plugins, note, device, place
        self._session: int | None = None
        self._stopped = False
        self._worker: Worker | None = None
        self._ran: set[str] = set()  # the curves that have run in the worker

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Mapping[str, Any]:
        """Start the worker, where there is none, and return its catalog. Raises WorkerLost."""
        if self._worker is None:
            worker = start_worker(self._plugins, self._note, self._device["variables"] if self._device else {})
            if self._stopped:
                worker.stop()
                raise DeviceGone("stopped")
            self._worker, self._ran = worker, set()
        return self._worker.catalog

    def measure(self, task: Task, listener: Listener) -> Finished:
        """Measure a task; every session in a fresh worker.

        A case is measured whole or not at all: when a provider takes the worker down, it gets its row and the others
        are measured together again, in a fresh worker, so that they stay comparable. A worker that was killed from
        outside may be no provider's fault: whoever was running then is blamed when it happens to it again. One that
        ended by itself may be the fault of any provider that has run in it: each is tried alone, until it shows which.

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

    def attempt(self, task: Task) -> None:
        """Have the operator's own functions tried on the case of a task. Raises ConfigError with what is wrong with them."""
        try:
            found = list(self.ready(task).ask(task.request("try", ()), limit_s=task.settings["timeout_s"]))
        except WorkerLost as lost:
            self._worker = None
            end = lost.reason.removesuffix(" between steps")
            what = f"trying its inputs and its reference on {task.case.label} ended the worker: {end}"
            raise ConfigError([ConfigIssue(SourceLocation(f"operator {task.case.operator}"), what)]) from None
        if faults := [
            ConfigIssue(SourceLocation(event.where), event.what) for event in found if isinstance(event, Fault)
        ]:
            raise ConfigError(faults)

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
                        listener.event(event, self._place)
                        if isinstance(event, Begin):
                            edge = event.edge
                        elif isinstance(event, Cell):
                            skip.append(event.edge)
                            found = dataclasses.asdict(event) | {"status": event.status.value}
                            yield found | {"reason": printable(event.reason, REASON_LIMIT), "curve": curve.name}
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
        """One row per curve, then the controls."""
        lost_rows = {c.name: lost_row(task, c, Status.ERROR, c.error) for c in task.curves if c.error}
        spared: set[str] = set()
        nobody = False  # whether nobody takes the worker down alone
        unblamed = 0
        while True:
            curves = [c for c in task.curves if c.name not in lost_rows]
            if not curves:
                return [lost_rows[c.name] for c in task.curves]
            try:
                rows = self._ask(self.ready(task), task, curves, listener)
                break
            except WorkerLost as lost:
                self._worker = None
                curve = curves[lost.index] if lost.index is not None and 0 <= lost.index < len(curves) else None
                whose = curve.name if curve else ""  # "": between the steps of all of them
                if lost.killed and whose not in spared:
                    spared.add(whose)
                    if not self._stopped:
                        listener.note(f"{task.case.label}: the worker was {lost.reason}; once more")
                    continue
                others = self._ran - {curve.name} if curve else len(curves) > 1
                if (lost.exited or not curve) and others and not nobody:
                    guilty = self._guilty(task, curve, curves, listener)
                    lost_rows |= guilty
                    nobody = not guilty
                    if guilty:
                        continue
                if curve:
                    lost_rows[curve.name] = lost_row(task, curve, lost.status, lost.reason)
                    continue
                unblamed += 1
                if unblamed >= UNBLAMED_LIMIT:
                    lost_rows |= {c.name: lost_row(task, c, lost.status, lost.reason) for c in curves}
        measured = {row.curve: row for row in rows if row.role == PROVIDER} | lost_rows
        return [measured[c.name] for c in task.curves] + [row for row in rows if row.role != PROVIDER]

    def _guilty(self, task: Task, accused: Curve | None, curves: Sequence[Curve], listener: Listener) -> dict[str, Row]:
        """The rows of those that take the worker down when they are measured alone. Anything that runs in a worker can end
        it while another is at work. The accused is tried first, and nobody else where it is guilty."""
        guilty: dict[str, Row] = {}
        for curve in sorted(curves, key=lambda one: one is not accused):
            self._end_worker()
            try:
                self._ask(self.ready(task), task, [curve], listener)
            except WorkerLost as lost:
                self._worker = None
                guilty[curve.name] = lost_row(task, curve, lost.status, lost.reason)
                if curve is accused:
                    break
        self._end_worker()
        return guilty

    def _ask(self, worker: Worker, task: Task, curves: Sequence[Curve], listener: Listener) -> list[Row]:
        """Raises WorkerLost, also for rows that were not asked for."""
        rows: tuple[Row, ...] | None = None
        doubtful = False
        for event in worker.ask(task.request("measure", curves)):
            if isinstance(event, Rows):
                doubtful = doubtful or rows is not None
                rows = event.rows
            else:
                if isinstance(event, Begin) and 0 <= event.index < len(curves):
                    self._ran.add(curves[event.index].name)
                listener.event(event, self._place)
        if rows is None or doubtful or not _answers(task, curves, rows):
            worker.stop()
            raise WorkerLost(Status.CRASHED, f"{NONSENSE}: rows that were not asked for", exited=True)
        return list(rows)


def _answers(task: Task, curves: Sequence[Curve], rows: Sequence[Row]) -> bool:
    """Whether the rows are those of the request: one for each curve in their order, then each control once."""
    wanted = [(c.provider, format_params(c.params)) for c in curves]
    controls = [row.provider for row in rows[len(wanted) :]]
    return (
        [(row.provider, row.params) for row in rows[: len(wanted)]] == wanted
        and all(row.role == (PROVIDER if number < len(wanted) else CONTROL) for number, row in enumerate(rows))
        and all(row.case.key == task.case.key and row.session == task.session for row in rows)
        and len(set(controls)) == len(controls)
        and set(controls) <= CONTROLS
    )


def _cell(curve: Curve, edge: str, status: Status, reason: str) -> dict[str, Any]:
    return {
        "type": "cell",
        "curve": curve.name,
        "edge": edge,
        "status": status.value,
        "reason": reason,
        "max_ulp": None,
    }
