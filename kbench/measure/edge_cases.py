"""Edge cases: what each provider does with the inputs that a kernel author must know about."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.provider import Provider
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import preparer_of
from kbench.measure.correctness.check import Delivery, deliver, equal, judge_delivery, once
from kbench.measure.correctness.common_edges import Edge, common_edges, edge_names
from kbench.measure.correctness.definition import Definition, OperatorFault
from kbench.measure.correctness.expected import CONSTANT, Expected, OutputPart, keep_bytes
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.correctness.memory import INTEGERS, marked_inputs, overlaps_itself
from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.passed_tensors import SharedMemory, at, elements, lay_out, read_tensors
from kbench.measure.steps import Emit, Steps
from kbench.measure.tampering.guard import Guard
from kbench.protocol import (
    COMPUTE,
    NO_INDEX,
    RANDOM,
    CallRequest,
    Configuration,
    Delivered,
    Measure,
    Message,
    Rows,
    StepBegun,
    StepEnded,
    Task,
)
from kbench.results.case import FORWARD, FULL, Case, format_params
from kbench.results.row import Row
from kbench.results.vocabulary import Status
from kbench.text.exception_text import message

NEARLY = 1e-6
"""How much expected values differ at most on inputs that differ by almost nothing, relative to them or to 1."""

REFERENCE_S = 3.0
"""After so many seconds in the reference of a problem, a case gets no other edge inputs. Such a reference often loops over
rows in Python. A smaller case gets all of them."""

Digest = tuple[tuple[torch.Size, int, int] | None, ...]
"""What tells the outputs of a call from others."""

STORED = "; its output is the right one of an earlier input, bit for bit, as if it had stored that result"


def check_edges(
    operator: Operator,
    case: Case,
    configurations: Sequence[Configuration],
    *,
    skip: Collection[tuple[str, str]] = (),
    without_edges: bool = False,
    settings: Measure,
    device: Device,
    emit: Emit,
    guard: Guard | None = None,
    elsewhere: OtherWorker | None = None,
) -> None:
    """Run the configurations on random inputs and then, unless `without_edges`, on every edge case: the operator's own, or the
    common ones if it has none.

    Emits a row for each. `skip` has the configurations and edge cases that are done. A configuration that declines random
    inputs is tried on no others. The configurations run here, or `elsewhere`.

    Raises OperatorFault, and DeviceLost as measuring a case does.
    """
    common = common_edges(operator, case.mode)
    guard = guard or Guard()
    guard.watch(operator)
    candidates = list(enumerate(configurations))
    random: Expected | None = None
    right: dict[int, set[Digest]] = {index: set() for index, _ in candidates}
    reference_s = 0.0
    for edge_name in (RANDOM, *(() if without_edges else edge_names(operator, case.mode))):
        members = [
            (index, configuration) for index, configuration in candidates if (configuration.name, edge_name) not in skip
        ]
        if not members:
            continue
        edge = common.get(edge_name)
        if operator.source and reference_s > REFERENCE_S:
            taken = f"the reference has taken {reference_s:.0f} s"
            print(f"kbench: {case.label}: {edge_name} and later edge inputs left out: {taken}", file=sys.stderr)
            break
        edge_case = edge.case(case) if edge else case
        begun = time.monotonic()
        emit(StepBegun(NO_INDEX, "the reference", COMPUTE, settings.timeout_s, edge_name))
        made = _edge_trial(Definition(operator, edge_case), edge_name, edge, device, settings.seed, random)
        device.synchronize()  # whatever its kernels have broken is no fault of a provider
        emit(StepEnded(NO_INDEX))
        reference_s += time.monotonic() - begun
        if made is None:
            continue
        trial = made if isinstance(made, EdgeTrial) else None
        if edge_name == RANDOM and trial:
            random = trial.expected
        if edge_name == RANDOM and trial and not without_edges and _is_constant(trial, device, settings.seed):
            print(f"kbench: {case.label}: {CONSTANT}", file=sys.stderr)
        steps = Steps(device, partial(_emit, emit, edge_name), guard)
        for index, configuration in members:
            contender = Contender.of(index, configuration, operator)
            if isinstance(made, str):
                contender.end(Status.OOM, made)
            elif elsewhere:
                elsewhere.check(contender, made, edge_name, right[index])
            else:
                with steps.step(contender, "build", settings.build_timeout_s):
                    _check(contender, edge_case, made, device, right[index])
            shapes = _other_shapes(operator, case, trial.expected.inputs) if trial else ""
            row = replace(_row(case, configuration, contender), edge=edge_name, shapes=shapes)
            emit(Rows((row,)))
            if edge_name == RANDOM and row.status.declined:
                candidates.remove((index, configuration))


@dataclass(frozen=True)
class EdgeTrial:
    """The inputs of one name for a case: random, an edge of the operator's own, or a common one.

    inputs    makes them anew: the provider before may have changed its own
    expected  what a call must deliver for them, computed once for all configurations
    """

    definition: Definition
    inputs: Callable[[], tuple[Tensor, ...] | None]
    expected: Expected

    def values(self) -> tuple[Tensor, ...]:
        values = self.inputs()
        assert values is not None  # there is no trial without inputs
        return values


def _edge_trial(
    definition: Definition, name: str, edge: Edge | None, device: Device, seed: int, random: Expected | None
) -> EdgeTrial | str | None:
    """The inputs of this name, or why they do not fit into memory. None if a common edge is not for this operator. Raises
    OperatorFault."""
    try:
        return _trial(definition, name, edge, device, seed, random)
    except OperatorFault:  # a common edge is for those operators only that accept it
        if edge is None:
            raise
        return None
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        return f"the case's inputs and reference do not fit into memory: {message(error)}"


def _trial(
    definition: Definition, name: str, edge: Edge | None, device: Device, seed: int, random: Expected | None
) -> EdgeTrial | None:
    """The inputs of this name, which are those of a common edge or not. None if a common edge is not for this operator. Raises
    OperatorFault, and what torch raises if memory runs out. `random` is what is expected for random inputs, if that is known:
    many edges only lay the same values out in another way."""
    case, drawn = definition.case, Inputs(definition, device, seed)

    def inputs() -> tuple[Tensor, ...] | None:
        values = drawn.draw(RANDOM)
        if edge:
            return edge.inputs(case, values)  # with the gradients of the outputs
        return values if name == RANDOM else definition.edge(name, values, drawn)

    values = inputs()
    if values is None:
        return None
    own = [x.clone() for x in values]
    if random and random.definition.case == case and all(map(equal, own, random.inputs)):
        random.of(own).compute()  # whether the reference accepts them
        expected = random
    else:
        expected = Expected(definition, own, keep_bytes(device.free_bytes()))
        expected.compute()
    if edge:
        definition.check_shapes(expected.shapes)
        if edge.finite and not all(_in_range(part, definition) for part in expected.parts()):
            return None
        nearby = edge.nearby(case, values) if edge.nearby else None
        if nearby is not None and not _agree(expected, expected.of(nearby)):
            return None
    return EdgeTrial(definition, inputs, expected)


def _is_constant(trial: EdgeTrial, device: Device, seed: int) -> bool:
    """Whether the outputs are the same for another draw of the inputs."""
    other = trial.expected.of(Inputs(trial.definition, device, seed).draw("second"))
    other.compute()
    return trial.expected.same_as(other)


def _in_range(part: OutputPart, definition: Definition) -> bool:
    """Whether expected values are finite, and at most half the largest number of their dtype."""
    dtype = definition.outputs[part.position].dtype
    limits = torch.finfo(dtype) if dtype.is_floating_point else None
    return limits is None or bool((part.reference.abs() <= limits.max / 2).all())


def _agree(expected: Expected, other: Expected) -> bool:
    """Whether expected values are nearly the same for two sets of inputs."""
    pairs = [(a.reference, b.reference) for a, b in zip(expected.parts(), other.parts(), strict=True)]
    return all(bool(((a - b).abs() <= NEARLY * a.abs().clamp(min=1)).all()) for a, b in pairs)


def _check(contender: Contender, case: Case, trial: EdgeTrial, device: Device, right: set[Digest]) -> None:
    provider = contender.admitted(case, device.type)
    if provider and (delivery := _deliver(contender, provider, trial.expected, trial.values(), device)):
        _judge(contender, trial.expected, delivery, right)


def _judge(contender: Contender, expected: Expected, delivery: Delivery, right: set[Digest]) -> None:
    """`right` has the right outputs of the contender on earlier inputs."""
    accuracy = judge_delivery(expected, delivery)
    contender.judged(accuracy)
    digest = tuple(map(_digest, delivery.first))
    if contender.running:
        contender.end(Status.CHECKED)
        right.add(digest)
    elif accuracy.off and digest in right and any(digest):
        contender.reason += STORED


def _digest(output: Tensor) -> tuple[torch.Size, int, int] | None:
    """The same for outputs with the same bits in the same places. None for one whose elements are all the same: many inputs
    have such outputs."""
    bits = output.detach().view(INTEGERS[output.dtype.itemsize])
    if not bits.numel() or bits.amin() == bits.amax():
        return None
    rows = bits.reshape(-1, output.shape[-1])
    sums = rows.sum(0, dtype=torch.int64), rows.sum(1, dtype=torch.int64)
    of_columns, of_rows = (int((x * torch.arange(1, len(x) + 1, device=x.device)).sum()) for x in sums)
    return output.shape, of_columns, of_rows


def _deliver(
    contender: Contender, provider: Provider, expected: Expected, values: Sequence[Tensor], device: Device
) -> Delivery | None:
    """What calls on these inputs deliver. None if the contender declines them. Needs no expected values."""
    definition = expected.definition
    marked = marked_inputs(definition.input_names, values)
    inputs = [input_.tensor for input_ in marked]
    for name, x in zip(definition.input_names, inputs, strict=True):
        if name in _changed_by(provider, definition.case.mode) and overlaps_itself(x):
            contender.end(Status.UNSUPPORTED, f"works in place on {name}, whose elements share memory here")
            return None
    delivery = deliver(expected, preparer_of(definition, provider, contender.params), inputs, device)
    outside = next(filter(None, (input_.fault() for input_ in marked)), None)
    return replace(delivery, second_fault=delivery.second_fault or outside or "")


@dataclass(frozen=True)
class OtherWorker:
    """The worker with the configurations of a task. `ask` sends a request to it, and returns the answer.

    This worker has the reference, draws the inputs, and judges. The other one gets the inputs, and gives back the outputs:
    whatever a provider replaces there, wrong outputs stay wrong.
    """

    task: Task
    folder: str
    ask: Callable[[CallRequest], Delivered]
    device: Device

    def check(self, contender: Contender, trial: EdgeTrial, edge: str, right: set[Digest]) -> None:
        """Give the contender the inputs of a trial, and judge its outputs."""
        values = trial.values()
        inputs, end = lay_out(values, gaps=False)
        outputs, end = lay_out(blank_outputs(trial.expected) * 3, end)
        configuration = self.task.configurations[contender.index]
        task = replace(self.task, case=trial.definition.case, configurations=(configuration,))
        # memory of the device or, if the other worker cannot open that, of the host
        for place in dict.fromkeys((self.device.torch_device, torch.device("cpu"))):
            memory = SharedMemory(end, place, self.folder)
            for x, there in zip(values, inputs, strict=True):
                elements(memory.data, there).copy_(x[once(x)])
            self.device.synchronize()
            answer = self.ask(CallRequest(task, edge, contender.index, memory.words(), inputs, outputs))
            if answer.opened:
                break
        if answer.status:
            passed_over = answer.status.failed or answer.status.declined
            contender.end(answer.status if passed_over else Status.ERROR, answer.reason)
            return
        tensors = read_tensors(memory.data, outputs, self.device.torch_device)
        del memory
        self.device.release()  # the other worker may need as much
        count = len(tensors) // 3
        first, later, second = tensors[:count], tensors[count : 2 * count], tensors[2 * count :]
        faults = answer.fault, answer.cause, answer.second_fault
        later, second = later if answer.later else [], second if answer.second else []
        _judge(contender, trial.expected, Delivery(first, later, second, answer.deterministic, *faults), right)


def blank_outputs(expected: Expected) -> list[Tensor]:
    """Tensors like the outputs, without memory."""
    pairs = zip(expected.shapes, expected.definition.outputs, strict=True)
    return [torch.empty(shape, dtype=output.dtype, device="meta") for shape, output in pairs]


def call_for_other(
    operator: Operator, request: CallRequest, memory: Tensor, *, device: Device, emit: Emit, guard: Guard
) -> Delivered:
    """Call a configuration on inputs of another worker, and write its outputs for that. Raises DeviceLost."""
    task, delivery = request.task, None
    contender = Contender.of(request.index, task.configurations[0], operator)
    steps = Steps(device, partial(_emit, emit, request.edge), guard)
    count = len(request.outputs) // 3
    with steps.step(contender, "build", task.settings.build_timeout_s):
        if provider := contender.admitted(task.case, device.type):
            values = read_tensors(memory, request.inputs, device.torch_device)
            shapes = tuple(place.shape for place in request.outputs[:count])
            expected = Expected(Definition(operator, task.case), [x.clone() for x in values], shapes=shapes)
            delivery = _deliver(contender, provider, expected, values, device)
    if delivery is None or contender.status:
        return Delivered(contender.status or Status.ERROR, contender.reason)
    for number, outputs in enumerate((delivery.first, delivery.later, delivery.second)):
        for x, place in zip(outputs, request.outputs[number * count :], strict=False):
            at(memory, place).copy_(x.detach())
    device.synchronize()
    return Delivered(
        None,
        fault=delivery.fault,
        cause=delivery.cause,
        second_fault=delivery.second_fault,
        deterministic=delivery.deterministic,
        later=bool(delivery.later),
        second=bool(delivery.second),
    )


def _emit(emit: Emit, edge: str, event: Message) -> None:
    """Add to the beginning of a step which edge case it belongs to."""
    emit(replace(event, edge=edge) if isinstance(event, StepBegun) else event)


def _row(case: Case, configuration: Configuration, contender: Contender) -> Row:
    assert contender.status is not None
    return Row(
        case,
        configuration.provider,
        format_params(configuration.params),
        status=contender.status,
        reason=contender.reason,
        max_ulp=contender.accuracy.max_ulp,
        max_rel_err=contender.accuracy.max_rel_err,
        deterministic=contender.accuracy.deterministic,
        element=contender.accuracy.element if contender.status is Status.WRONG else None,
    )


def _changed_by(provider: Provider, mode: str) -> Collection[str]:
    """The inputs that a provider may change in a mode."""
    if mode == FORWARD:
        return provider.mutates
    kernels = (provider.full if mode == FULL else None, provider.backward)
    return next((kernel.mutates for kernel in kernels if kernel), {})


def _other_shapes(operator: Operator, case: Case, inputs: Sequence[Tensor]) -> str:
    """The inputs that have other shapes than in the case: `x 256x255, labels 256`."""
    pairs = zip(operator.inputs.items(), inputs, strict=False)  # the gradients of the outputs follow
    changed = [(name, x.shape) for (name, tensor), x in pairs if x.shape != tensor.shape_in(case)]
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in changed)
