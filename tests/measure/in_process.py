"""Measures a case of an operator in the process of the test, without a worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
from kbench.measure.case import CaseRun
from kbench.measure.edge_cases import check_edges
from kbench.measure.instruments import Instruments
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Telemetry
from kbench.measure.steps import Steps
from kbench.measure.tampering.guard import Guard
from kbench.protocol import CheckRequest, Configuration, Measure, Rows, Task
from kbench.results.case import Value
from kbench.results.row import Row
from kbench.results.vocabulary import Role


class MadeUpInstruments(Instruments):
    """Ceilings that nobody has measured, by default none, and telemetry of the same kind."""

    def __init__(
        self, gbps: float | None = None, tflops: float | None = None, telemetry: Telemetry | None = None
    ) -> None:
        super().__init__(Device())
        self.telemetry, self.gbps, self._made_up = telemetry or Telemetry(), gbps, tflops

    def tflops(self, dtype: str) -> float | None:
        return self._made_up


def matrices(
    name: str, reference: Callable[..., object], inputs: str = "x", outputs: str = "y", **fields: Any
) -> Operator:
    """An operator whose inputs and outputs are matrices of the same sizes."""
    declared = [dict.fromkeys(names.split(), Declared("M", "N")) for names in (inputs, outputs)]
    return Operator(name, ("M", "N"), *declared, reference, **fields)


def steps(operator: Operator, emit: Callable[[Any], None]) -> Steps:
    """Steps of providers of an operator, which a guard watches."""
    guard = Guard()
    guard.watch(operator)
    return Steps(Device(), emit, guard)


def case_run(
    operator: Operator,
    providers: Sequence[str] = (),
    *,
    dtype: str | None = None,
    timer: str = "do_bench",
    cache: str = "warm",
    rounds: int = 1,
    rep_ms: float = 1,
    instruments: Instruments | None = None,
    **axes: Value,
) -> CaseRun:
    """A run of one case with these providers, by default all."""
    configurations = tuple(Configuration(name, {}) for name in providers or operator.providers)
    settings = Measure(
        timer=timer, cache=cache, warmup_ms=0, rep_ms=rep_ms, rounds=rounds, timeout_s=60, build_timeout_s=60
    )
    task = Task(operator.case(dtype, **axes), configurations, configurations[0].name, settings, 0)
    return CaseRun(operator, task, instruments or MadeUpInstruments(), steps(operator, lambda event: None))


def measured(operator: Operator, providers: Sequence[str] = (), **options: Value) -> dict[str, Row]:
    """The rows of the providers by name, without those of the controls."""
    rows = case_run(operator, providers, **options).run()  # type: ignore[arg-type]
    return {row.provider: row for row in rows if row.role == Role.PROVIDER}


def said(row: Row) -> str:
    """The status of a row and its reason."""
    return f"{row.status.value} {row.reason}".strip()


def checked_edges(operator: Operator, provider: str, *, dtype: str | None = None, **axes: Value) -> dict[str, str]:
    """What `kbench check` finds for a provider: by edge input, the status and the reason."""
    return checked_together(operator, provider, dtype=dtype, **axes)[provider]


def checked_together(
    operator: Operator, *providers: str, dtype: str | None = None, **axes: Value
) -> dict[str, dict[str, str]]:
    """What `kbench check` finds for each of several providers."""
    found: dict[str, dict[str, str]] = {name: {} for name in providers}

    def note(event: object) -> None:
        if isinstance(event, Rows):
            [row] = event.rows
            found[row.provider][row.edge] = said(row)

    configurations = tuple(Configuration(name, {}) for name in providers)
    task = Task(operator.case(dtype, **axes), configurations, None, Measure(build_timeout_s=60), 0)
    check_edges(operator, CheckRequest(task), steps(operator, note))
    return found
