"""Edge cases: what each provider does with the inputs that a kernel author must know about."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import is_

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.measure.catalog import does_not_fit
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Preparer
from kbench.measure.correctness.check import Delivery, deliver, judge_delivery
from kbench.measure.correctness.common_edges import Edge, common_edges, edge_names
from kbench.measure.correctness.definition import Definition, OperatorFault
from kbench.measure.correctness.error_scale import slices_of
from kbench.measure.correctness.expected import CONSTANT, Expected, OutputPart, keep_bytes
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.correctness.memory import INTEGERS, equal, marked_inputs
from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.steps import Steps
from kbench.protocol import COMPUTE, RANDOM, CheckRequest, Configuration, Rows, Task
from kbench.results.case import Case, format_params
from kbench.results.row import Row
from kbench.results.vocabulary import EdgeInput, Status

NEARLY = 1e-6
"""How much expected values differ at most on inputs that differ by almost nothing, relative to them or to 1."""

REFERENCE_S = 3.0
"""After so many seconds in the reference of a problem, a case gets no other edge inputs. Such a reference often loops over
rows in Python. A smaller case gets all of them."""

ONE_ELEMENT = (EdgeInput.PLUS_INF, EdgeInput.NAN)
"""They differ from earlier inputs in one element: a kernel with their outputs may have ignored it, and stored nothing."""

Digest = tuple[tuple[torch.Size, int, int] | None, ...]
"""What tells the outputs of a call from others."""


def check_edges(
    operator: Operator, request: CheckRequest, steps: Steps, elsewhere: DeliverElsewhere | None = None
) -> None:
    """Answer a request: emit a row for each configuration and its inputs. The edge cases are the operator's own, and the common
    ones that it has. A configuration that declines random inputs is tried on no others. Providers run here, or `elsewhere`.

    Raises OperatorFault, and DeviceLost as measuring a case does.
    """
    task, without_edges = request.task, request.without_edges
    case, configurations = task.case, task.configurations
    candidates = dict(enumerate(configurations))
    right: dict[int, set[Digest]] = {index: set() for index in candidates}
    trials = Trials(operator, task, steps)
    for edge_name in (RANDOM, *(() if without_edges else edge_names(operator, case.mode))):
        members = [index for index, tried in candidates.items() if (tried.name, edge_name) not in request.skip]
        if not members:
            continue
        if operator.source and trials.reference_s > REFERENCE_S:
            taken = f"the reference has taken {trials.reference_s:.0f} s"
            print(f"kbench: {case.label}: {edge_name} and later edge inputs left out: {taken}", file=sys.stderr)
            break
        trial = None  # frees the inputs of the edge case before
        trial = trials.trial(edge_name)
        if trial is None:
            continue
        shapes = "" if isinstance(trial, str) else _other_shapes(operator, case, trial.expected.inputs)
        if edge_name == RANDOM and not isinstance(trial, str) and not without_edges and trials.constant(trial):
            print(f"kbench: {case.label}: {CONSTANT}", file=sys.stderr)
        here = replace(steps, edge=edge_name)
        for index in members:
            contender = Contender.of(index, configurations[index], operator)
            earlier = set[Digest]() if edge_name in ONE_ELEMENT else right[index]
            if isinstance(trial, str):
                contender.end(Status.OOM, trial)
            elif elsewhere is None:
                with here.step(contender, "build", task.settings.build_timeout_s):
                    delivery = deliver_trial(contender, trial.expected, trial.inputs, steps.device)
                    if index == members[-1]:
                        trial.inputs.clear()  # the comparison needs the memory
                    _judge(contender, trial.expected, delivery, earlier)
            else:
                _judge(contender, trial.expected, elsewhere(contender, trial, edge_name), earlier)
            row = replace(_row(case, configurations[index], contender), edge=edge_name, shapes=shapes)
            steps.emit(Rows((row,)))
            if edge_name == RANDOM and row.status.declined:
                del candidates[index]


@dataclass(frozen=True)
class EdgeTrial:
    """The inputs of one name for a case: random, an edge of the operator's own, or a common one.

    inputs    where they lie as the edge case demands. A call gets copies, or has the values of `expected` written here before
    expected  what a call must deliver for them, computed once for all configurations
    """

    inputs: list[Tensor]
    expected: Expected


DeliverElsewhere = Callable[[Contender, EdgeTrial, str], Delivery | None]
"""What a contender delivers on the inputs of a trial with this name, in another worker. None if that ends the contender."""


class Trials:
    """Makes the trials of a case. `reference_s` is how long that has taken."""

    def __init__(self, operator: Operator, task: Task, steps: Steps) -> None:
        self._operator, self._case, self._steps = operator, task.case, steps
        self._seed, self._limit_s = task.settings.seed, task.settings.timeout_s
        self._common = common_edges(operator, task.case.mode)
        self._random: Expected | None = None
        self._too_large = ""  # why the first trial did not fit into memory: the others share its line
        self.reference_s = 0.0

    def trial(self, name: str) -> EdgeTrial | str | None:
        """The trial, or why it does not fit into memory, or None if an edge is not for this operator."""
        edge = self._common.get(name)
        begun = time.monotonic()
        trial: EdgeTrial | str | None = None
        with replace(self._steps, edge=name).announced("the reference", COMPUTE, self._limit_s):
            try:
                trial = self._make(name, edge)
            except OperatorFault:  # a common edge is for those operators only that accept it
                if edge is None:
                    raise
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if not self._too_large:
                    self._too_large = does_not_fit(self._operator, self._case, error)
                trial = self._too_large
            self._steps.device.synchronize()  # whatever its kernels have broken is no fault of a provider
        self.reference_s += time.monotonic() - begun
        if name == RANDOM and isinstance(trial, EdgeTrial):
            self._random = trial.expected
        return trial

    def _make(self, name: str, edge: Edge | None) -> EdgeTrial | None:
        """Many edges only lay the random inputs out in another way, with the same expected values."""
        case = edge.case(self._case) if edge else self._case
        definition = Definition(self._operator, case)
        drawn = Inputs(definition, self._steps.device, self._seed)

        values = drawn.draw(RANDOM)
        if edge and edge.inputs:
            unchanged, values = values, edge.inputs(case, values)  # with the gradients of the outputs
            if all(map(is_, values, unchanged)):
                return None
            del unchanged
        elif not edge and name != RANDOM:
            values = definition.edge(name, values, drawn)
        own, random = [x.clone() for x in values], self._random
        if random and random.definition.case == case and all(map(equal, own, random.inputs)):
            random.of(own).compute()  # whether the reference accepts them
            expected = random
        else:
            expected = Expected(definition, own, keep_bytes(self._steps.device.free_bytes()))
            expected.compute()
        if edge:
            definition.check_shapes(expected.shapes)
            if edge.finite and not all(_in_range(part, definition) for part in expected.values()):
                return None
            if edge.nearby and not _agree(expected, expected.of(edge.nearby(case, values))):
                return None
        return EdgeTrial(list(values), expected)

    def constant(self, trial: EdgeTrial) -> bool:
        """Whether the outputs of a trial are the same for another draw of the inputs."""
        drawn = Inputs(trial.expected.definition, self._steps.device, self._seed)
        return trial.expected.same_as(trial.expected.of(drawn.draw("second")))


def _in_range(part: OutputPart, definition: Definition) -> bool:
    """Whether expected values are finite, and at most half the largest number of their dtype."""
    dtype = definition.outputs[part.position].dtype
    limits = torch.finfo(dtype) if dtype.is_floating_point else None
    return limits is None or bool((part.reference.abs() <= limits.max / 2).all())


def _agree(expected: Expected, other: Expected) -> bool:
    """Whether expected values are nearly the same for two sets of inputs."""
    pairs = ((a.reference, b.reference) for a, b in zip(expected.values(), other.values(), strict=True))
    slices = (pair for both in pairs for pair in slices_of(*both))
    return all(bool(((a - b).abs() <= NEARLY * a.abs().clamp(min=1)).all()) for a, b in slices)


def _judge(contender: Contender, expected: Expected, delivery: Delivery | None, right: set[Digest]) -> None:
    """`right` has the right outputs of the contender on earlier inputs."""
    if delivery is None:
        return
    accuracy = judge_delivery(expected, delivery)
    contender.judged(accuracy)
    digest = tuple(map(_digest, delivery.first))
    if contender.running:
        contender.end(Status.CHECKED)
        right.add(digest)
    elif accuracy.off and digest in right and any(digest):
        contender.reason += (
            "; its output is the right one of an earlier input, bit for bit, as if it had stored that result"
        )


def _digest(output: Tensor) -> tuple[torch.Size, int, int] | None:
    """The same for outputs with the same bits in the same places. None if all elements are the same."""
    bits = output.detach().view(INTEGERS[output.dtype.itemsize])
    if not bits.numel() or bits.amin() == bits.amax():
        return None
    rows = bits.reshape(-1, output.shape[-1])
    sums = rows.sum(0, dtype=torch.int64), rows.sum(1, dtype=torch.int64)
    of_columns, of_rows = (int((x * torch.arange(1, len(x) + 1, device=x.device)).sum()) for x in sums)
    return output.shape, of_columns, of_rows


def deliver_trial(
    contender: Contender, expected: Expected, values: Sequence[Tensor], device: Device
) -> Delivery | None:
    """What calls on these inputs deliver; None if the contender declines. Call it in a step."""
    definition = expected.definition
    provider = contender.admitted(definition.case, device.type)
    if provider is None:
        return None
    inputs, faults = marked_inputs(definition.input_names, [x.detach() for x in values])
    delivery = deliver(expected, Preparer(definition, provider, contender.params), inputs, device)
    outside = next(filter(None, (fault() for fault in faults)), None)
    return replace(delivery, second_fault=delivery.second_fault or outside or "")


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


def _other_shapes(operator: Operator, case: Case, inputs: Sequence[Tensor]) -> str:
    """The inputs that have other shapes than in the case: `x 256x255, labels 256`."""
    pairs = zip(operator.inputs.items(), inputs, strict=False)  # the gradients of the outputs follow
    changed = [(name, x.shape) for (name, tensor), x in pairs if x.shape != tensor.shape_in(case)]
    return ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in changed)
