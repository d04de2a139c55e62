"""Edge cases: what each provider does with the inputs that a kernel author must know about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.provider import Provider
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.common_edges import Edge, common_edges, edge_names
from kbench.measure.correctness.expected import Expected, OutputPart, keep_bytes
from kbench.measure.correctness.gaps import marked_gaps, with_margins, written_gap
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.correctness.placement import overlaps_itself
from kbench.measure.definition.definition import Definition, OperatorFault
from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.steps import Emit, Steps
from kbench.measure.tampering.guard import Guard
from kbench.protocol import RANDOM, Configuration, Message, Rows, StepBegun, StepEnded
from kbench.results.case import FORWARD, FULL, Case, format_params
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text.exception_text import message

Trial = tuple[tuple[Tensor, ...], Expected]
"""The inputs of a check, and what a call must deliver for them."""

Wanted = Callable[[Sequence[Tensor]], Expected]
"""Returns what a call must deliver for some inputs."""


class TooLarge(Exception):
    """The inputs of a case, or what the reference makes of them, do not fit into memory."""


class KnownOutputs:
    """What calls must deliver for the inputs of one case, computed once for all its configurations.

    A worker gets a request for each configuration, and holds one object of this class for all of them. The values of another
    case, and values that do not fit into a part of the free memory, are dropped and computed again.
    """

    def __init__(self) -> None:
        self.shapes: dict[str, list[tuple[int, ...]]] = {}  # of the inputs, by the name of the edge
        self._case: tuple[Any, ...] = ()
        self._found: dict[str, Expected] = {}
        self._bytes = 0
        self._too_large: dict[str, str] = {}
        self._accepted: dict[str, bool] = {}

    def begin(self, operator: Operator, case: Case, seed: int) -> None:
        """The next calls of `of` are for this case."""
        which = (operator.name, case.key, seed)
        if self._case != which:
            self._case, self._found, self._bytes, self._too_large, self._accepted = which, {}, 0, {}, {}
            self.shapes = {}

    def of(self, edge_name: str, definition: Definition, inputs: Sequence[Tensor], device: Device) -> Expected:
        """What a call must deliver for the inputs of this name. They are the same at every call. Raises OperatorFault."""
        self.shapes[edge_name] = [tuple(x.shape) for x in inputs]
        if edge_name in self._found:
            return self._found[edge_name]
        limit = keep_bytes(device.free_bytes())
        expected = Expected(definition, [x.clone() for x in inputs], limit)
        expected.compute()
        size = sum(x.nbytes for x in expected.inputs) + expected.kept_bytes
        if self._bytes + size <= limit:
            self._found[edge_name] = expected
            self._bytes += size
        return expected

    def accepts(self, edge_name: str, decide: Callable[[], bool]) -> bool:
        """Whether the operator takes the edge of this name, as `decide` returned for the first configuration."""
        if edge_name not in self._accepted:
            self._accepted[edge_name] = decide()
        return self._accepted[edge_name]

    @contextmanager
    def fitting(self, edge_name: str) -> Iterator[None]:
        """Inside, the inputs of this name are made. Raises TooLarge if memory runs out, and at once if it ran out for an
        earlier configuration."""
        if edge_name not in self._too_large:
            try:
                yield
                return
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                what = "the case's inputs and reference do not fit into memory"
                self._too_large[edge_name] = f"{what}: {message(error)}"
        raise TooLarge(self._too_large[edge_name])


def check_edges(
    operator: Operator,
    case: Case,
    configurations: Sequence[Configuration],
    *,
    skip: Sequence[str] = (),
    seed: int,
    build_timeout_s: float,
    device: Device,
    emit: Emit,
    guard: Guard | None = None,
    known: KnownOutputs | None = None,
) -> None:
    """Run every configuration on random inputs and on every edge case: the operator's own, or the common ones if it has none.

    Emits a row for each; `skip` names the edge cases that are done. Raises DeviceLost as measuring a case does.
    """
    common = common_edges(operator, case.mode)
    guard = guard or Guard()
    guard.watch(operator)
    known = known or KnownOutputs()
    known.begin(operator, case, seed)
    for index, configuration in enumerate(configurations):
        for edge_name in (RANDOM, *edge_names(operator, case.mode)):
            if edge_name in skip:
                continue
            edge = common.get(edge_name, Edge())
            definition = Definition(operator, edge.case(case))
            drawn = Inputs(definition, device, seed)
            wanted = partial(known.of, edge_name, definition, device=device)
            make: Callable[[], Trial] | None = partial(_own, definition, drawn, edge_name, wanted)
            if edge_name in common:
                try:
                    with known.fitting(edge_name):
                        make = _common(definition, drawn, edge, wanted, partial(known.accepts, edge_name))
                except TooLarge as why:
                    emit(Rows((checked_row(case, configuration, edge_name, Status.OOM, str(why)),)))
                    continue
            if make is None:
                continue
            steps = Steps(device, partial(_mark, emit, index, edge_name), guard, times=False)
            contender = Contender.of(0, configuration, operator)
            with steps.step(contender, "build", build_timeout_s):
                _check(contender, definition, make, known.fitting(edge_name), device)
            assert contender.status is not None
            row = checked_row(case, configuration, edge_name, contender.status, contender.reason)
            row.shapes = _other_shapes(operator, case, known.shapes.get(edge_name, []))
            accuracy = contender.accuracy
            row.max_ulp, row.max_rel_err = accuracy.max_ulp, accuracy.max_rel_err
            row.deterministic = accuracy.deterministic
            emit(Rows((row,)))
            if contender.status in (Status.UNAVAILABLE, Status.UNSUPPORTED) and edge_name == RANDOM:
                break


def _own(definition: Definition, drawn: Inputs, name: str, wanted: Wanted) -> Trial:
    """The inputs of this name: random ones, or an edge case of the operator's own."""
    inputs = drawn.draw(RANDOM)
    inputs = inputs if name == RANDOM else definition.edge(name, inputs, drawn)
    return inputs, wanted(inputs)


def _common(
    definition: Definition,
    drawn: Inputs,
    edge: Edge,
    wanted: Wanted,
    accepts: Callable[[Callable[[], bool]], bool],
) -> Callable[[], Trial] | None:
    """Returns the inputs of a common edge case; None if the operator does not accept them."""
    try:
        changed = edge.inputs(definition.case, drawn.draw(RANDOM))  # with the gradients of the outputs
        if changed is None:
            return None
        expected = wanted(changed)
        definition.check_shapes(expected.shapes)
        if not accepts(partial(_takes, definition, edge, changed, expected)):
            return None
    except OperatorFault:
        return None
    return lambda: (changed, expected)


def _takes(definition: Definition, edge: Edge, inputs: Sequence[Tensor], expected: Expected) -> bool:
    """Whether an edge is for this operator. Raises OperatorFault."""
    if edge.finite and not all(_in_range(part, definition) for part in expected.parts()):
        return False
    nearby = edge.nearby(definition.case, inputs) if edge.nearby else None
    return nearby is None or _agree(expected, expected.of(nearby))


def _in_range(part: OutputPart, definition: Definition) -> bool:
    """Whether expected values are finite, and at most half the largest number of their dtype."""
    dtype = definition.outputs[part.position].dtype
    limits = torch.finfo(dtype) if dtype.is_floating_point else None
    return limits is None or bool((part.reference.abs() <= limits.max / 2).all())


NEARLY = 1e-6
"""How much expected values differ at most on inputs that differ by almost nothing, relative to them or to 1."""


def _agree(expected: Expected, other: Expected) -> bool:
    """Whether expected values are nearly the same for two sets of inputs."""
    pairs = [(a.reference, b.reference) for a, b in zip(expected.parts(), other.parts(), strict=True)]
    return all(bool(((a - b).abs() <= NEARLY * a.abs().clamp(min=1)).all()) for a, b in pairs)


def _mark(emit: Emit, index: int, edge: str, event: Message) -> None:
    """Add to a step which cell of the table it belongs to."""
    if isinstance(event, StepBegun):
        event = replace(event, index=index, edge=edge)
    elif isinstance(event, StepEnded):
        event = replace(event, index=index)
    emit(event)


def _check(
    contender: Contender,
    definition: Definition,
    make: Callable[[], Trial],
    fitting: AbstractContextManager[None],
    device: Device,
) -> None:
    provider = contender.admitted(definition.case, device.type)
    if provider is None:
        return
    try:
        with fitting:
            inputs, expected = make()
            inputs = with_margins(inputs)
    except TooLarge as why:
        contender.end(Status.OOM, str(why))
        return
    for name, x in zip(definition.input_names, inputs, strict=True):
        if name in _changed_by(provider, definition.case.mode) and overlaps_itself(x):
            contender.end(Status.UNSUPPORTED, f"works in place on {name}, whose elements share memory here")
            return
    stage = stage_of(definition, provider, contender.params)
    with marked_gaps(definition.input_names, inputs) as gaps:
        contender.judged(run_checked(expected, stage, inputs, device))
        if contender.running and (fault := written_gap(gaps)):
            contender.end(Status.WRONG, fault)
    if contender.running:
        contender.end(Status.CHECKED)


def _changed_by(provider: Provider, mode: str) -> Collection[str]:
    """The inputs that a provider may change in a mode."""
    if mode == FORWARD:
        return provider.mutates
    kernels = (provider.full if mode == FULL else None, provider.backward)
    return next((kernel.mutates for kernel in kernels if kernel), {})


def _other_shapes(operator: Operator, case: Case, shapes: Sequence[tuple[int, ...]]) -> str:
    """The inputs that have other shapes than in the case: `x 256x255, labels 256`."""
    pairs = zip(operator.inputs.items(), shapes, strict=False)  # the gradients of the outputs follow
    other = [(name, shape) for (name, tensor), shape in pairs if shape != tensor.shape_in(case)]
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in other)


def checked_row(case: Case, configuration: Configuration, edge: str, status: Status, reason: str) -> Row:
    """The row of a configuration on one edge input."""
    params = format_params(configuration.params)
    return Row(case, configuration.provider, params, status=status, reason=reason, edge=edge)
