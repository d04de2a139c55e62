"""A worker calls providers for another one, which draws the inputs and judges the outputs.

Whatever a provider replaces in its own process, wrong outputs stay wrong. Tensors pass in memory that both workers see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call, preparer_of
from kbench.measure.correctness.check import Delivery, fill
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.elements import Accuracy
from kbench.measure.correctness.expected import Expected
from kbench.measure.edge_cases import EdgeTrial, deliver_trial
from kbench.measure.machine.device import Device
from kbench.measure.passed_tensors import SharedMemory, at, lay_out, read_tensors
from kbench.measure.steps import Emit, Steps
from kbench.measure.tampering.guard import Guard
from kbench.protocol import CallRequest, Delivered, Task
from kbench.results.vocabulary import Status

Set = tuple[list[Tensor], list[Tensor]]
"""The inputs of a call, and its outputs."""


@dataclass(frozen=True)
class OtherWorker:
    """The worker with the configurations of a task. `ask` sends a request to it, and returns the answer. The folder is
    for memory of the host that both see."""

    task: Task
    folder: str
    ask: Callable[[CallRequest], Delivered]
    device: Device

    def deliver(self, contender: Contender, trial: EdgeTrial, edge: str) -> Delivery | None:
        """What the contender delivers there on the inputs of a trial. None if it has ended."""
        values = trial.values()
        inputs, end = lay_out(values)
        outputs, end = lay_out(blank_outputs(trial.expected) * 3, end)
        configuration = self.task.configurations[contender.index]
        task = replace(self.task, case=trial.definition.case, configurations=(configuration,))
        # memory of the device or, if the other worker cannot open that, of the host
        for place in dict.fromkeys((self.device.torch_device, torch.device("cpu"))):
            memory = SharedMemory(end, place, self.folder)
            fill([at(memory.data, x) for x in inputs], values)
            self.device.synchronize()
            answer = self.ask(CallRequest(task, edge, memory.words(), inputs, outputs))
            if answer.opened:
                break
        if answer.status:
            passed_over = answer.status.failed or answer.status.declined
            contender.end(answer.status if passed_over else Status.ERROR, answer.reason)
            return None
        tensors = read_tensors(memory.data, outputs, self.device.torch_device)
        del memory
        self.device.release()  # the other worker may need as much
        count = len(tensors) // 3
        first, later, second = tensors[:count], tensors[count : 2 * count], tensors[2 * count :]
        return Delivery(
            first,
            later if answer.later else [],
            second if answer.second else [],
            answer.deterministic,
            cause=answer.cause,
            second_fault=answer.second_fault,
        )


def blank_outputs(expected: Expected) -> list[Tensor]:
    """Tensors like the outputs, without memory."""
    pairs = zip(expected.shapes, expected.definition.outputs, strict=True)
    return [torch.empty(shape, dtype=output.dtype, device="meta") for shape, output in pairs]


def sets_of(request: CallRequest, memory: Tensor) -> list[Set]:
    """The sets of a request in memory."""
    starts = range(0, request.sets * request.step, request.step)
    return [
        ([at(memory, x, start) for x in request.inputs], [at(memory, x, start) for x in request.outputs])
        for start in starts
    ]


def call_for_other(
    operator: Operator, request: CallRequest, memory: Tensor, device: Device, emit: Emit, guard: Guard
) -> Delivered:
    """Call a configuration on inputs of another worker, and write its outputs for that. Raises DeviceLost."""
    task, count = request.task, len(request.outputs) // 3
    delivery: Delivery | None = None
    contender = Contender.of(0, task.configurations[0], operator)
    steps = Steps(device, emit, guard, request.edge)
    with steps.step(contender, "build", task.settings.build_timeout_s):
        values = read_tensors(memory, request.inputs, device.torch_device)
        shapes = tuple(place.shape for place in request.outputs[:count])
        expected = Expected(Definition(operator, task.case), [x.clone() for x in values], shapes=shapes)
        delivery = deliver_trial(contender, expected, values, device)
        if delivery and delivery.fault:
            contender.judged(Accuracy(wrong=delivery.fault))
    if delivery is None or contender.status:
        return Delivered(contender.status or Status.ERROR, contender.reason)
    for number, outputs in enumerate((delivery.first, delivery.later, delivery.second)):
        places = request.outputs[number * count :][: len(outputs)]
        fill([at(memory, place) for place in places], [x.detach() for x in outputs])
    device.synchronize()
    return Delivered(
        None,
        cause=delivery.cause,
        second_fault=delivery.second_fault,
        deterministic=delivery.deterministic,
        later=bool(delivery.later),
        second=bool(delivery.second),
    )


class CallsOnSets:
    """Calls of a configuration on the sets of a request."""

    def __init__(
        self, operator: Operator, request: CallRequest, memory: Tensor, device: Device, emit: Emit, guard: Guard
    ) -> None:
        self.request, self._task, self._device = request, request.task, device
        self._contender = Contender.of(0, self._task.configurations[0], operator)
        self._steps = Steps(device, emit, guard)
        self._calls: list[tuple[Call, list[Tensor]]] = []
        with self._steps.step(self._contender, "build", self._task.settings.build_timeout_s):
            if provider := self._contender.admitted(self._task.case, device.type):
                preparer = preparer_of(Definition(operator, self._task.case), provider, self._contender.params)
                shapes = [place.shape for place in request.outputs]
                self._calls = [(preparer(inputs, shapes), outputs) for inputs, outputs in sets_of(request, memory)]
                self._calls[0][0].run()  # it may compile

    def deliver(self) -> Delivered:
        """Call it once on each set, and write the outputs. Raises DeviceLost."""
        if self._contender.running:
            with self._steps.step(self._contender, "time", self._task.settings.timeout_s):
                for call, outputs in self._calls:
                    for output, x in zip(outputs, call.deliver(call.run()), strict=True):
                        output.copy_(x.detach())
                self._device.synchronize()
        return Delivered(self._contender.status, self._contender.reason)
