"""Measures a plan's cases on this machine, one worker process at a time, and yields the rows case by case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from kbench.config import Curve
from kbench.execute.plan import Task
from kbench.execute.worker import Worker, WorkerLost
from kbench.results import PROVIDER, Row, Status, format_params, now

UNBLAMED_LIMIT = 2
"""How often a worker may die outside any provider's step before the rest of the case is given up."""


class Listener(Protocol):
    """What measuring reports while it goes on: see progress.py."""

    def begin(self, task: Task) -> None: ...

    def event(self, event: dict[str, Any]) -> None: ...

    def note(self, line: str) -> None: ...

    def end(self, task: Task, rows: Sequence[Row]) -> None: ...


class LocalExecutor:
    """Owns the worker: the first one is started at once, because its catalog is needed to make a plan."""

    def __init__(self, plugins: Sequence[str], note: Callable[[str], None]) -> None:
        self._plugins, self._note = list(plugins), note
        self._worker: Worker | None = Worker(self._plugins, note)
        self.catalog = self._worker.catalog
        self._session: int | None = None

    def run(self, tasks: Sequence[Task], listener: Listener) -> Iterator[list[Row]]:
        """Yield the rows of each task as it ends. Every session starts in a fresh worker."""
        for task in tasks:
            if self._session not in (None, task.session):
                self.stop()
            self._session = task.session
            listener.begin(task)
            rows = self._measure(task, listener)
            listener.end(task, rows)
            yield rows

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
                    for event in self._ready().ask(request):
                        edge = event.get("edge", edge)
                        listener.event(event)
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
        if self._worker:
            self._worker.stop()
            self._worker = None

    def _ready(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._plugins, self._note)
        return self._worker

    def _measure(self, task: Task, listener: Listener) -> list[Row]:
        """A case is measured whole or not at all: when a provider takes the worker down, it gets its row and the others
        are measured together again, in a fresh worker, so that they stay comparable. A worker that was killed from
        outside may be no provider's fault: whoever was running then is blamed when it happens to it again."""
        lost_rows = {c.name: _row(task, c, Status.ERROR, c.error) for c in task.curves if c.error}
        spared: set[str] = set()
        unblamed = 0
        while True:
            curves = [c for c in task.curves if c.name not in lost_rows]
            if not curves:
                return [lost_rows[c.name] for c in task.curves]
            try:
                rows = self._ask(task, curves, listener)
                break
            except WorkerLost as lost:
                self._worker = None
                if lost.index is not None and lost.index < len(curves):
                    curve = curves[lost.index]
                    if lost.killed and curve.name not in spared:
                        spared.add(curve.name)
                        listener.note(f"{task.case.label}: the worker was {lost.reason}; once more")
                        continue
                    lost_rows[curve.name] = _row(task, curve, lost.status, lost.reason)
                    continue
                unblamed += 1
                if unblamed >= UNBLAMED_LIMIT:
                    lost_rows |= {c.name: _row(task, c, lost.status, lost.reason) for c in curves}
        measured = {row.curve: row for row in rows if row.role == PROVIDER} | lost_rows
        return [measured[c.name] for c in task.curves] + [row for row in rows if row.role != PROVIDER]

    def _ask(self, task: Task, curves: Sequence[Curve], listener: Listener) -> list[Row]:
        rows: list[Row] = []
        for event in self._ready().ask(task.request("measure", curves)):
            if event["type"] == "rows":
                rows = [Row.from_json(data) for data in event["rows"]]
            else:
                listener.event(event)
        return rows


def _row(task: Task, curve: Curve, status: Status, reason: str | None) -> Row:
    return Row(
        case=task.case,
        provider=curve.provider,
        params=format_params(curve.params),
        session=task.session,
        status=status,
        reason=reason or "no reason was given",
        started_at=now(),
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
