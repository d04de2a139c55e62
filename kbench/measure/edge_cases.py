"""Edge inputs: what each provider does with the inputs a kernel author must know about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from torch import Tensor

from kbench.measure.case import CaseRun, Emit, Settings
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.common_edges import Edge, common_edges, edge_names
from kbench.measure.correctness.definition import OperatorFault
from kbench.measure.correctness.expected import Expected
from kbench.measure.entry import Entry
from kbench.measure.machine.device import Device
from kbench.measure.machine.telemetry import Telemetry
from kbench.protocol import Begin, Cell, End, Message
from kbench.registry import Operator
from kbench.results.row import Case, Status, Value

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
    """Run every provider on random inputs and on every edge input of the operator, or on the common ones where it has none.
    One `cell` message each; `skip` names the edges that are done.

    Raises DeviceLost like a measured case does.
    """
    common = common_edges(operator)
    for index, curve in enumerate(curves):
        for name in (RANDOM, *edge_names(operator)):
            if name in skip:
                continue
            edge = common.get(name, Edge())
            run = CaseRun(
                operator,
                edge.case(case),
                [curve],
                baseline=None,
                settings=settings,
                session=0,
                device=device,
                telemetry=telemetry,
                emit=partial(_mark, emit, index, name),
            )
            entry = run.entries[0]
            draw = _applied(run, edge) if name in common else partial(_own, run, name)
            if draw is None:
                continue
            _check(run, entry, draw)
            emit(_cell(index, name, entry))
            if entry.status in (Status.UNAVAILABLE, Status.UNSUPPORTED) and name == RANDOM:
                break


def _own(run: CaseRun, name: str) -> tuple[Tensor, ...]:
    """The inputs of this name, random or the operator's own edge."""
    inputs = run.drawn.draw(RANDOM)
    return inputs if name == RANDOM else run.definition.edge(name, inputs)


def _applied(run: CaseRun, edge: Edge) -> Callable[[], tuple[Tensor, ...]] | None:
    """Draws the inputs of a common edge; None where the operator does not take it."""
    try:
        inputs = edge.inputs(run.drawn.draw(RANDOM))
        if inputs is None:
            return None
        for _ in Expected(run.definition, inputs).parts():
            pass
    except OperatorFault:
        return None
    return lambda: inputs


def _mark(emit: Emit, index: int, edge: str, event: Message) -> None:
    """Say of every step which cell of the table it belongs to."""
    if isinstance(event, Begin):
        event = replace(event, index=index, edge=edge)
    elif isinstance(event, End):
        event = replace(event, index=index)
    emit(event)


def _check(run: CaseRun, entry: Entry, draw: Callable[[], tuple[Tensor, ...]]) -> None:
    with run.guard(entry, "build", run.settings.build_timeout_s):
        provider = run.admit(entry)
        if provider is None:
            return
        inputs = draw()
        expected = Expected(run.definition, [x.clone() for x in inputs])
        fn = provider.bind(run.case, entry.params)
        entry.judged(run_checked(expected, fn, inputs, run.device), "")
        if entry.running:
            entry.end(Status.CHECKED)


def _cell(index: int, edge: str, entry: Entry) -> Cell:
    assert entry.status is not None
    found = entry.accuracy
    return Cell(index, edge, entry.status, entry.reason, found.max_ulp, found.max_rel_err, found.deterministic)
