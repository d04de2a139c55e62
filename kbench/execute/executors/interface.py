"""The shape of everything that executes a plan: it takes tasks and yields finished cases, in whatever order they finish.

`Local` has one device, `Devices` those of this host, `Cluster` those of other hosts. None of them knows another; run.py
chooses one and writes down what it yields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kbench.config.load import Curve
from kbench.execute.plan import Task
from kbench.protocol import Message
from kbench.results.row import Row, Status, format_params, now

Device = Mapping[str, Any]
"""As a catalog lists it: type, name, index, uuid, and the variables that select it."""


LOSS_LIMIT = 2
"""A task is given up when so many devices were lost under it: it may be what they do not survive."""


@dataclass(frozen=True)
class Finished:
    """A task that was measured.

    rows     one per curve in the order of the task, then the controls
    device   what they were measured on: type, name, index, uuid
    machine  its environment, as the worker's catalog describes it
    place    its name among the executor's places; empty where there is only one
    """

    task: Task
    rows: list[Row]
    device: Device
    machine: Mapping[str, Any]
    place: str = ""


class Listener(Protocol):
    """What is reported while measuring goes on, from several threads where there are several places: see progress.py."""

    def begin(self, task: Task, place: str) -> None: ...

    def event(self, event: Message, place: str) -> None: ...

    def note(self, line: str) -> None: ...


class Executor(Protocol):
    """Measures tasks.

    scope    how far the rows of a file may come from each other: one `device`, one `host`, a `cluster`
    catalog  what the plan is made from, as a worker reports it
    devices  the devices that are locked against other runs of this host
    places   names of what measures side by side, for people
    """

    scope: str
    catalog: Mapping[str, Any]

    @property
    def devices(self) -> Sequence[Device]: ...

    @property
    def places(self) -> Sequence[str]: ...

    def attempt(self, task: Task) -> None:
        """Have the operator's own functions tried on the case of a task, before anything is measured. Raises ConfigError
        with what is wrong with them. Where the measuring is done elsewhere, every case finds out for itself."""

    def start(self) -> None:
        """Get ready to measure. The devices are locked by now."""

    def run(self, tasks: Sequence[Task], homes: Mapping[Any, str], listener: Listener) -> Iterator[Finished]:
        """Yield every task once, as it is finished. `homes` maps cases to the UUID of the device that has measured other
        sessions of them. Raises ExecutionError when nothing is left to measure with."""

    def stop(self) -> None:
        """End all that runs. May be called at any time, and more than once."""


def given_up(task: Task, reason: str, device: Device, machine: Mapping[str, Any], place: str = "") -> Finished:
    """A task whose every provider is `crashed`."""
    rows = [lost_row(task, curve, Status.CRASHED, reason) for curve in task.curves]
    return Finished(task, rows, device, machine, place)


def lost_row(task: Task, curve: Curve, status: Status, reason: str | None) -> Row:
    """The row of a provider that could not make its own."""
    return Row(
        case=task.case,
        provider=curve.provider,
        params=format_params(curve.params),
        session=task.session,
        status=status,
        reason=reason or "no reason was given",
        timer=task.settings["timer"],
        cache=task.settings["cache"],
        started_at=now(),
    )
