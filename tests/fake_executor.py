"""A machine that is made up: rows come at once, from no process and without torch.

`fake_machine` (conftest.py) puts it in the place of the executor that `kbench run` would choose. All else is the program
itself: config, plan, locks, progress, writer, summary, exit code. What a worker does with real providers is for the tests
that start one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kbench.config.load import Config
from kbench.contract.tensor import Layout
from kbench.execute.executor import Finished, Listener, make_failed_row
from kbench.execute.run import RunOptions
from kbench.protocol import (
    CallRecorded,
    Catalog,
    DeviceInfo,
    OperatorInfo,
    ProviderInfo,
    RoundTimed,
    StepBegun,
    StepEnded,
    Task,
)
from kbench.results.case import Case, format_params
from kbench.results.environment import Machine
from kbench.results.row import Row
from kbench.results.stamps import now
from kbench.results.vocabulary import Role, Status

UNAVAILABLE = "needs a device of type cuda; this machine has cpu"

HOST = DeviceInfo("cpu", "made-up host")


def machine_info(name: str = "made-up host", **known: Any) -> Machine:
    """A machine about which little is known, and `known`."""
    found: dict[str, Any] = {"device_type": "cpu", "limits": {}, "packages": {}, "variables": {}}
    found |= {"triton_interpreter": True, "python": "3.11", "platform": "Linux", "cpu_count": 2, "threads": 1}
    return Machine(**(found | {"device": name} | known))


@dataclass
class Provider:
    """A provider that does nothing.

    status       of its rows: only `ok` ones have a time
    reason       of all others
    source_hash  tells its code from other code
    """

    status: Status = Status.OK
    reason: str = ""
    source_hash: str = "code"
    parameters: Mapping[str, Any] = field(default_factory=dict)


def softmax() -> dict[str, Provider]:
    return {
        "torch-native": Provider(),
        "torch-eager": Provider(),
        "triton": Provider(Status.CHECKED, "ran in Triton's interpreter", parameters={"num_warps": None}),
        "cuda": Provider(Status.UNAVAILABLE, UNAVAILABLE),
        "zeros": Provider(Status.WRONG, "every element is zero"),
    }


@dataclass
class FakeMachine:
    """What the machine has. A test may change it between two runs, as somebody changes code or moves to another machine.

    providers    those of softmax, by name
    cards        how many devices there are besides the host; `--devices` measures on all of them
    before       is called with each task before it is measured: it may raise, or do to the files what others would
    finished     how many tasks were measured, in all runs
    launched     what a call of each provider launches
    memory_bytes the memory of each of its devices
    """

    providers: dict[str, Provider] = field(default_factory=softmax)
    name: str = "made-up host"
    packages: dict[str, str] = field(default_factory=lambda: {"kbench": "1.0", "torch": "2.8.0", "triton": "3.4.0"})
    cards: int = 0
    before: Callable[[Task], None] = lambda task: None
    finished: int = 0
    launched: dict[str, CallRecorded] = field(default_factory=dict)
    memory_bytes: int | None = None

    def executor_for(self, config: Config, options: RunOptions, note: Callable[[str], None]) -> FakeExecutor:
        """Stands in for kbench.execute.prepare.executor_for."""
        return FakeExecutor(self, self.cards if options.devices else 0)

    def catalog(self) -> Catalog:
        device = replace(HOST, name=self.name)
        machine = machine_info(self.name, packages=dict(self.packages))
        return Catalog(device, (), {"softmax": self._operator()}, (), machine, memory_bytes=self.memory_bytes)

    def _operator(self) -> OperatorInfo:
        described = {
            name: ProviderInfo(
                parameters=dict(provider.parameters),
                unavailable=provider.reason if provider.status is Status.UNAVAILABLE else None,
                source_hash=provider.source_hash,
                interpreted=provider.status is Status.CHECKED,
            )
            for name, provider in self.providers.items()
        }
        matrix = Layout(("M", "N"))
        return OperatorInfo(
            axes=("M", "N"),
            choices={},
            dtypes=("float32",),
            providers=described,
            inputs={"x": matrix},
            outputs={"y": matrix},
            model_axes=({"M": "tokens", "N": "hidden"},),
        )

    def rows(self, task: Task) -> list[Row]:
        """What a worker would have answered. A case with a runnable provider has controls."""
        self.before(task)
        rows = [self._row(task, number) for number in range(len(task.configurations))]
        if any(row.ms is not None for row in rows):
            rows += [self._timed(task, name, 0.5, role=Role.CONTROL) for name in ("copy", "empty", "repeat")]
        self.finished += 1
        return rows

    def _row(self, task: Task, number: int) -> Row:
        one = task.configurations[number]
        provider = self.providers[one.provider]
        if provider.status is Status.OK:
            row = self._timed(task, one.provider, 1.0 + number)
        else:
            row = make_failed_row(task, one, provider.status, provider.reason)
        if known := self.launched.get(one.provider):
            row = replace(row, kernels=known.launched.kernels, code=known.launched.code)
        return replace(row, params=format_params(one.params), source_hash=provider.source_hash, case_hash="softmax")

    def _timed(self, task: Task, name: str, ms: float, **fields: Any) -> Row:
        times = {"ms": ms, "ms_p20": ms, "ms_p80": ms, "ms_min": ms, "round_ms": (ms,) * task.settings.rounds}
        moved = 2 * 4 * task.case.M * task.case.N
        return Row(
            task.case, name, session=task.session, samples=3, gbps=moved / ms * 1e-6, timer=task.settings.timer,
            cache=task.settings.cache, started_at=now(), **times, **fields,
        )  # fmt: skip


class FakeExecutor:
    """An Executor of a made-up machine: on the host, or on so many cards, which take turns."""

    def __init__(self, machine: FakeMachine, cards: int) -> None:
        self._machine = machine
        self.catalog = machine.catalog()
        self.scope = "host" if cards else "device"
        self.devices: Sequence[DeviceInfo] = [
            replace(HOST, name="made-up card", index=number, uuid=f"GPU-{number}") for number in range(cards)
        ] or [self.catalog.device]
        self.places: Sequence[str] = [f"device {number}" for number in range(cards)] or ("",)

    def try_operator(self, task: Task) -> None:
        """Nothing can be wrong with a function that is never called."""

    def run(self, tasks: Sequence[Task], measured_on: Mapping[Case, str], listener: Listener) -> Iterator[Finished]:
        taken = dict(measured_on)
        for number, task in enumerate(tasks):
            uuids = [device.uuid for device in self.devices]
            home = taken.setdefault(task.case, uuids[number % len(uuids)])
            at = uuids.index(home) if home in uuids else 0
            place = self.places[at]
            listener.begin(task, place)
            for index, one in enumerate(task.configurations):
                listener.event(StepBegun(index, one.name, "time", 1.0), place)
                listener.event(RoundTimed(index, one.name, 0, 1.0), place)
                listener.event(StepEnded(index), place)
            rows = self._machine.rows(task)
            calls = [known for row in rows if (known := self._machine.launched.get(row.provider))]
            yield Finished(task, rows, self.devices[at], self.catalog.machine, place, tuple(calls))

    def stop(self) -> None:
        """There is nothing to stop."""
