"""What executors have in common. An executor takes the tasks of a plan and yields finished ones, in any order.

A `WorkerSupervisor` measures on one device, `Devices` on several devices of this host, `Cluster` on those of other hosts, and
`InProcess` of api/ in the caller's process. `prepare` chooses one, and `run` writes down what it yields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from kbench.execute.progress import PlainProgress
from kbench.protocol import CallRecorded, Catalog, Configuration, DeviceInfo, Task
from kbench.results.case import Case, format_params
from kbench.results.environment import Machine
from kbench.results.row import Row
from kbench.results.stamps import now
from kbench.results.vocabulary import Status


@dataclass(frozen=True)
class Finished:
    """A task that was measured.

    rows     one per configuration in the order of the task, then the controls
    device   the device that they were measured on
    machine  the machine of that device
    calls    what calls of the rows launch
    place    name of the device among the executor's places; empty for an executor without any
    """

    task: Task
    rows: list[Row]
    device: DeviceInfo
    machine: Machine
    place: str = ""
    calls: tuple[CallRecorded, ...] = ()


class Executor:
    """Measures the tasks of a plan. This one measures them one after another, on one device. Use it with `with`, which ends its
    workers.

    scope    where the rows of one file may come from: one `device`, one `host`, or a `cluster`
    catalog  the catalog that the plan is made from, once it has started
    devices  devices to lock against other runs on this host
    places   names of the devices or workers that measure at the same time, for messages; none if it measures on one device
    """

    scope = "device"
    catalog: Catalog
    devices: Sequence[DeviceInfo] = ()
    places: Sequence[str] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> Catalog:
        """Wait until it can measure, and return the catalog."""
        return self.catalog

    def try_operator(self, task: Task) -> None:
        """Call the operator's own functions on the case of a task, before anything is measured. Raises ConfigError when one
        fails. An executor that measures on other hosts skips this: its tasks then report the fault."""

    def run(self, tasks: Sequence[Task], measured_on: Mapping[Case, str], display: PlainProgress) -> Iterator[Finished]:
        """Yield every task once, when it is finished. The caller has locked the devices. `measured_on` has the UUID of the
        device that has measured earlier sessions of a case; a cluster cannot choose a device by it. An executor with several
        places calls `display` from several threads. Raises WorkerLost, or ExecutionError if devices were lost, after all that
        the others could measure."""
        for task in tasks:
            yield self.measure(task, display)

    def measure(self, task: Task, display: PlainProgress) -> Finished:
        raise NotImplementedError

    def stop(self) -> None:
        """End all workers. May be called at any time, and more than once."""


def make_failed_row(
    task: Task, configuration: Configuration, status: Status, reason: str, *, edge: str = "", not_tried: bool = False
) -> Row:
    """The row of a configuration for which no worker made one."""
    return Row(
        case=task.case,
        provider=configuration.provider,
        params=format_params(configuration.params),
        session=task.session,
        status=status,
        reason=reason or "no reason was given",
        timer=task.settings.timer,
        cache=task.settings.cache,
        started_at=now(),
        edge=edge,
        not_tried=not_tried,
    )
