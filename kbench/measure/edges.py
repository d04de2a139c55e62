"""Edge inputs: what each provider does with the inputs a kernel author must know about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kbench.measure.case import CaseRun, Emit, Settings
from kbench.measure.check import run_checked
from kbench.measure.device import Device
from kbench.measure.entry import Entry
from kbench.measure.telemetry import Telemetry
from kbench.registry import Operator
from kbench.results import Case, Status, Value

RANDOM = "random"


def check_edges(
    operator: Operator,
    case: Case,
    curves: Sequence[tuple[str, Mapping[str, Value]]],
    *,
    skip: Sequence[str] = (),
    settings: Settings,
    device: Device,
    telemetry: Telemetry,
    emit: Emit,
) -> None:
    """Run every provider on random inputs and on every edge input of the operator. One `cell` message each; `skip` names
    the edges that are done.

    Raises DeviceLost like a measured case does.
    """
    for index, curve in enumerate(curves):
        for edge in (RANDOM, *operator.edges):
            if edge in skip:
                continue
            run = CaseRun(
                operator,
                case,
                [curve],
                baseline=None,
                settings=settings,
                session=0,
                device=device,
                telemetry=telemetry,
                emit=partial(_mark, emit, index, edge),
            )
            entry = run.entries[0]
            _check(run, entry, edge)
            emit(_cell(index, edge, entry))
            if entry.status in (Status.UNAVAILABLE, Status.UNSUPPORTED) and edge == RANDOM:
                break


def _mark(emit: Emit, index: int, edge: str, event: dict[str, Any]) -> None:
    """Say of every step which cell of the table it belongs to."""
    emit(event | {"edge": edge, "index": index})


def _check(run: CaseRun, entry: Entry, edge: str) -> None:
    with run.guard(entry, "build", run.settings.build_timeout_s):
        provider = run.admit(entry)
        if provider is None:
            return
        fn = provider.bind(run.case, entry.params)
        inputs = run.draw()
        if edge != RANDOM:
            inputs = run.operator.edges[edge](run.case, *inputs)
        values = [x.clone() for x in inputs]
        entry.judged(run_checked(run.operator, run.case, fn, inputs, values, run.device), "")
        if entry.running:
            entry.end(Status.CHECKED)


def _cell(index: int, edge: str, entry: Entry) -> dict[str, Any]:
    assert entry.status is not None
    return {
        "type": "cell",
        "index": index,
        "edge": edge,
        "status": entry.status.value,
        "reason": entry.reason,
        "max_ulp": entry.accuracy.max_ulp,
        "max_rel_err": entry.accuracy.max_rel_err,
        "identical": entry.accuracy.identical,
    }
