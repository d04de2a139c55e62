"""Edge cases: what each provider does with the inputs that a kernel author must know about."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.provider import Provider
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.common_edges import Edge, common_edges, edge_names
from kbench.measure.correctness.definition import Definition, OperatorFault
from kbench.measure.correctness.expected import Expected, OutputPart, keep_bytes
from kbench.measure.correctness.gaps import marked_inputs
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.correctness.placement import overlaps_itself
from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.steps import Emit, Steps
from kbench.measure.tampering.guard import Guard
from kbench.protocol import RANDOM, Configuration, Message, Rows, StepBegun, StepEnded
from kbench.results.case import FORWARD, FULL, Case, format_params
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text.exception_text import message


class TooLarge(Exception):
    """The inputs of a case, or what the reference makes of them, do not fit into memory."""


class EdgeTrial:
    """The inputs of one name for a case, and what a call must deliver for them. They are random, an edge of the operator's own,
    or a common one. Its methods raise OperatorFault and TooLarge."""

    def __init__(self, operator: Operator, case: Case, name: str, edge: Edge | None, device: Device, seed: int) -> None:
        self.definition = Definition(operator, edge.case(case) if edge else case)
        self._name, self._edge, self._device = name, edge, device
        self._drawn = Inputs(self.definition, device, seed)
        self.shapes: list[tuple[int, ...]] = []  # of the inputs, once they are known

    @property
    def applies(self) -> bool:
        """Whether the operator accepts these inputs. Random inputs and an operator's own edges always do."""
        if self._edge is None:
            return True
        try:
            with _fitting():
                inputs = self._inputs()
                if inputs is None:
                    return False
                self.definition.check_shapes(self.expected.shapes)
                return self._is_meant(self._edge, inputs)
        except OperatorFault:
            return False

    def _is_meant(self, edge: Edge, inputs: Sequence[Tensor]) -> bool:
        if edge.finite and not all(_in_range(part, self.definition) for part in self.expected.parts()):
            return False
        nearby = edge.nearby(self.definition.case, inputs) if edge.nearby else None
        return nearby is None or _agree(self.expected, self.expected.of(nearby))

    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs, made anew: the provider before may have changed its own."""
        with _fitting():
            inputs = self._inputs()
        assert inputs is not None
        return inputs

    def _inputs(self) -> tuple[Tensor, ...] | None:
        inputs = self._drawn.draw(RANDOM)
        if self._edge:
            return self._edge.inputs(self.definition.case, inputs)  # with the gradients of the outputs
        return inputs if self._name == RANDOM else self.definition.edge(self._name, inputs, self._drawn)

    @cached_property
    def expected(self) -> Expected:
        """What a call must deliver, computed once for all configurations."""
        inputs = self.inputs()
        self.shapes = [tuple(x.shape) for x in inputs]
        with _fitting():
            expected = Expected(self.definition, [x.clone() for x in inputs], keep_bytes(self._device.free_bytes()))
            expected.compute()
        return expected


@contextmanager
def _fitting() -> Iterator[None]:
    """Raises TooLarge if memory runs out inside."""
    try:
        yield
        return
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        reason = message(error)
    raise TooLarge(f"the case's inputs and reference do not fit into memory: {reason}")


def check_edges(
    operator: Operator,
    case: Case,
    configurations: Sequence[Configuration],
    *,
    skip: Collection[tuple[str, str]] = (),
    seed: int,
    build_timeout_s: float,
    device: Device,
    emit: Emit,
    guard: Guard | None = None,
) -> None:
    """Run the configurations on random inputs and then on every edge case: the operator's own, or the common ones if it has
    none.

    Emits a row for each. `skip` has the configurations and edge cases that are done. A configuration that declines random
    inputs is tried on no others. Raises DeviceLost as measuring a case does.
    """
    common = common_edges(operator, case.mode)
    guard = guard or Guard()
    guard.watch(operator)
    candidates = list(enumerate(configurations))
    for edge_name in (RANDOM, *edge_names(operator, case.mode)):
        members = [
            (index, configuration) for index, configuration in candidates if (configuration.name, edge_name) not in skip
        ]
        if not members:
            continue
        trial = EdgeTrial(operator, case, edge_name, common.get(edge_name), device, seed)
        try:
            if not trial.applies:
                continue
        except TooLarge as why:
            for _, configuration in members:
                emit(Rows((checked_row(case, configuration, edge_name, Status.OOM, str(why)),)))
            continue
        for index, configuration in members:
            steps = Steps(device, partial(_in_cell, emit, index, edge_name), guard, times=False)
            contender = Contender.of(0, configuration, operator)
            with steps.step(contender, "build", build_timeout_s):
                _check(contender, trial, device)
            assert contender.status is not None
            row = checked_row(case, configuration, edge_name, contender.status, contender.reason)
            row.shapes = _other_shapes(operator, case, trial.shapes)
            accuracy = contender.accuracy
            row.max_ulp, row.max_rel_err = accuracy.max_ulp, accuracy.max_rel_err
            row.deterministic = accuracy.deterministic
            emit(Rows((row,)))
            if edge_name == RANDOM and contender.status.declined:
                candidates.remove((index, configuration))


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


def _in_cell(emit: Emit, index: int, edge: str, event: Message) -> None:
    """Add to a step which cell of the table it belongs to."""
    if isinstance(event, StepBegun):
        event = replace(event, index=index, edge=edge)
    elif isinstance(event, StepEnded):
        event = replace(event, index=index)
    emit(event)


def _check(contender: Contender, trial: EdgeTrial, device: Device) -> None:
    definition = trial.definition
    provider = contender.admitted(definition.case, device.type)
    if provider is None:
        return
    try:
        expected = trial.expected
        marked = marked_inputs(definition.input_names, trial.inputs())
    except TooLarge as why:
        contender.end(Status.OOM, str(why))
        return
    inputs = [input_.tensor for input_ in marked]
    for name, x in zip(definition.input_names, inputs, strict=True):
        if name in _changed_by(provider, definition.case.mode) and overlaps_itself(x):
            contender.end(Status.UNSUPPORTED, f"works in place on {name}, whose elements share memory here")
            return
    stage = stage_of(definition, provider, contender.params)
    contender.judged(run_checked(expected, stage, inputs, device))
    if contender.running and (fault := next(filter(None, (input_.fault() for input_ in marked)), None)):
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
    changed = [(name, shape) for (name, tensor), shape in pairs if shape != tensor.shape_in(case)]
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in changed)


def checked_row(case: Case, configuration: Configuration, edge: str, status: Status, reason: str) -> Row:
    """The row of a configuration on one edge input."""
    params = format_params(configuration.params)
    return Row(case, configuration.provider, params, status=status, reason=reason, edge=edge)
