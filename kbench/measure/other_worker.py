"""A worker calls providers for another one, which draws the inputs and judges the outputs.

Whatever a provider replaces in its own process, wrong outputs stay wrong. Tensors pass in memory that both workers see. Only
bytes come from the other worker: nothing that it writes is run, and dtypes and shapes are known before.
"""

from __future__ import annotations

import base64
import pickle
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor

from kbench.contract.operator import Operator
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call, Preparer
from kbench.measure.correctness.check import Delivery, fill, once
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.elements import Accuracy
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.memory import STEP_BYTES, spanned_elements
from kbench.measure.edge_cases import EdgeTrial, deliver_trial
from kbench.measure.machine.device import Device
from kbench.measure.steps import Steps
from kbench.protocol import CallRequest, Delivered, PassedTensor, Task
from kbench.results.vocabulary import Status


class SharedMemory:
    """Bytes of a CUDA device, or else of a file in `folder` that both map; all are zero at first."""

    def __init__(self, size: int, device: torch.device, folder: str) -> None:
        self._words = ""
        if device.type == "cuda":
            torch.cuda.ipc_collect()  # frees what other processes do not need any more
            with torch.cuda.use_mem_pool(torch.cuda.MemPool()):  # the other process sees whole blocks of the allocator
                self.data = torch.zeros(size, dtype=torch.uint8, device=device)
        else:
            for earlier in Path(folder).glob("tensors-*"):
                earlier.unlink()  # the other process may still see it
            # a name of its own, so that the other process opens it
            file = Path(folder, f"tensors-{secrets.token_hex(8)}")
            file.write_bytes(bytes(size))  # a full disk is an error here; in a sparse file, it would be a signal later
            self._words = f"{size} {file}"
            self.data = opened(self._words)

    def words(self) -> str:
        """The words with which one other process opens it, once."""
        return self._words or base64.b64encode(pickle.dumps(reduce_tensor(self.data))).decode()


def opened(words: str) -> Tensor:
    """The memory of the worker that judges. Raises RuntimeError and OSError."""
    size, _, path = words.partition(" ")
    if path:
        return torch.from_file(path, shared=True, size=int(size), dtype=torch.uint8)
    rebuild, arguments = pickle.loads(base64.b64decode(words))
    memory: Tensor = rebuild(*arguments)
    return memory


def lay_out(tensors: Sequence[Tensor], start: int = 0) -> tuple[tuple[PassedTensor, ...], int]:
    """Places for tensors like these, with their alignment, from a byte on; and the byte behind them."""
    places = []
    for x in tensors:
        start += (int(x.storage_offset()) * x.element_size()) % STEP_BYTES
        places.append(PassedTensor(str(x.dtype).removeprefix("torch."), tuple(x.shape), x.stride(), start))
        start += x[once(x)].numel() * x.element_size()
        start += -start % STEP_BYTES
    return tuple(places), start


def at(memory: Tensor, place: PassedTensor, further: int = 0) -> Tensor:
    """The tensor at a place, or so many bytes further. It has no gaps there: its rows may be gigabytes apart. Its strides are
    in the same order as those of the place, and equal to them if there are no gaps."""
    dtype = getattr(torch, place.dtype)
    stride, reach = list(place.stride), 1
    for dimension in sorted(range(len(stride)), key=stride.__getitem__):
        if stride[dimension] and place.shape[dimension] != 1:
            stride[dimension] = reach
            reach *= place.shape[dimension]
    start = (place.start + further) // dtype.itemsize
    return torch.empty(0, dtype=dtype, device=memory.device).set_(memory.untyped_storage(), start, place.shape, stride)


def read_tensors(memory: Tensor, places: Sequence[PassedTensor], device: torch.device) -> list[Tensor]:
    """The tensors at places, in new memory, with the strides and the alignment that they had."""
    tensors = []
    for place in places:
        values = at(memory, place)
        offset = place.start % STEP_BYTES // values.element_size()
        span = spanned_elements(torch.empty_strided(place.shape, place.stride, device="meta"))
        x = torch.empty(offset + span, dtype=values.dtype, device=device).as_strided(place.shape, place.stride, offset)
        tensors.append(x)
        fill([x], [values])
    return tensors


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
        inputs, end = lay_out(trial.inputs)
        outputs, end = lay_out(blank_outputs(trial.expected) * 3, end)
        configuration = self.task.configurations[contender.index]
        task = replace(self.task, case=trial.expected.definition.case, configurations=(configuration,))
        # memory of the device or, if the other worker cannot open that, of the host
        for place in dict.fromkeys((self.device.torch_device, torch.device("cpu"))):
            memory = SharedMemory(end, place, self.folder)
            fill([at(memory.data, x) for x in inputs], trial.expected.inputs)
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


def call_for_other(operator: Operator, request: CallRequest, memory: Tensor, steps: Steps) -> Delivered:
    """Call a configuration on inputs of another worker, and write its outputs for that. Raises DeviceLost."""
    task, count = request.task, len(request.outputs) // 3
    delivery: Delivery | None = None
    contender = Contender.of(0, task.configurations[0], operator)
    device = steps.device
    with replace(steps, edge=request.edge).step(contender, "build", task.settings.build_timeout_s):
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

    def __init__(self, operator: Operator, request: CallRequest, memory: Tensor, steps: Steps) -> None:
        self.request, self._task, self._steps = request, request.task, steps
        self._contender = Contender.of(0, self._task.configurations[0], operator)
        self._calls: list[tuple[Call, list[Tensor]]] = []
        with steps.step(self._contender, "build", self._task.settings.build_timeout_s):
            if provider := self._contender.admitted(self._task.case, steps.device.type):
                preparer = Preparer(Definition(operator, self._task.case), provider, self._contender.params)
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
                self._steps.device.synchronize()
        return Delivered(self._contender.status, self._contender.reason)
