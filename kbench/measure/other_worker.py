"""A worker calls providers for another one, which draws the inputs and judges the outputs.

Whatever a provider replaces in its own process, wrong outputs stay wrong. Tensors pass in memory that both workers see. Only
bytes come from the other worker: nothing that it writes is run, and dtypes and shapes are known before.

The worker that judges also takes the time of calls with its own clock. It writes sets of inputs, just drawn, into that memory,
and the other worker calls the provider once on each and writes the outputs there. The clock runs from the first input to the
last output, so no call can be made before or after it. The copies are timed without calls, and some outputs are judged.
"""

from __future__ import annotations

import base64
import math
import pickle
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.multiprocessing.reductions import reduce_tensor

from kbench.contract.operator import Operator
from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call, Preparer
from kbench.measure.correctness.check import Delivery, compared, fill, once
from kbench.measure.correctness.definition import Definition, OperatorFault, dtype_name
from kbench.measure.correctness.elements import Accuracy
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.correctness.memory import STEP_BYTES, spanned_elements
from kbench.measure.edge_cases import EdgeTrial, deliver_trial
from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.steps import Steps
from kbench.protocol import COMPUTE, CallRequest, ClockReading, ClockRequest, Delivered, PassedTensor, Task
from kbench.results.vocabulary import Status


class SharedMemory:
    """Bytes of a CUDA device, or of a file in `folder` that both map; all zero at first."""

    def __init__(self, size: int, device: torch.device, folder: str) -> None:
        self._words = ""
        if device.type == "cuda":
            torch.cuda.ipc_collect()  # frees what other processes do not need any more
            # the other process sees whole blocks of the allocator
            with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
                self.data = torch.zeros(size, dtype=torch.uint8, device=device)
        else:
            for earlier in Path(folder).glob("tensors-*"):
                earlier.unlink()  # the other process may still see it
            # a name of its own, so that the other process opens it
            file = Path(folder, f"tensors-{secrets.token_hex(8)}")
            # a full disk is an error here; in a sparse file, it would be a signal later
            file.write_bytes(bytes(size))
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
    """Places for tensors like these, from a byte on, as aligned as they; and the byte behind them."""
    places = []
    for x in tensors:
        start += (int(x.storage_offset()) * x.element_size()) % STEP_BYTES
        places.append(PassedTensor(dtype_name(x.dtype), tuple(x.shape), x.stride(), start))
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
    start = place.start + further
    # a storage of its own, as a program's tensor has: copy.deepcopy(x) copies the whole storage
    storage = memory.untyped_storage()[start : start + reach * dtype.itemsize]
    return torch.empty(0, dtype=dtype, device=memory.device).set_(storage, 0, place.shape, stride)


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
    """The worker with the configurations of a task. In `folder` lies memory that both see."""

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


# -- the clock of this process

ROUNDS, LEAST_ROUNDS, ROUND_MS = 10, 2, 5.0
"""How often it is done at most and at least, and how long the calls of one round take if what is claimed is right. The shortest
round counts: on a busy host, other programs get the core every few ms."""

MOST_SETS = 128

DRAWING_MS, DRAWS = 100.0, 3
"""To draw the inputs of a round takes about this long at most, if one draw takes as long as the shortest of so many: another
program may get the core in one, and a round of a few calls is then too short for the slack."""

MEMORY_BYTES, HOST_MEMORY_BYTES, MEMORY_SHARE = 2**33, 2**28, 16
"""The sets take at most so much memory, of a device or of a host, and at most this part of what is free. On an H200, the calls
of a kernel that reads and writes 8 GiB take 3 ms."""

JUDGED = 4
"""The outputs of so many calls of the shortest round are judged: its time counts, so it may leave out none. If the reference is
slow, fewer: none after `max_ms`. Calls that this process makes need no judge."""

SLACK_MS = 4.0
"""What the two processes need to take turns in a round. It was 3.2 ms on an H200, beside programs that used 22 cores."""


def read_clock(operator: Operator, request: ClockRequest, other: OtherWorker, steps: Steps) -> ClockReading:
    """Take the time of the only configuration of a task. It runs in the other worker, or here."""
    with steps.announced("the reference", COMPUTE, request.task.settings.timeout_s):
        try:
            reading = _read(operator, request, other, steps)
            # a claim that is too long leaves few calls in a round, and each is charged with much of what the round itself takes
            if request.here and reading.most_ms and reading.most_ms < request.claimed_ms / 2:
                reading = _read(operator, replace(request, claimed_ms=reading.most_ms), other, steps)
            return reading
        except (OperatorFault, RuntimeError, MemoryError) as error:
            if not isinstance(error, OperatorFault) and not out_of_memory(error):
                raise
            return ClockReading()


def _read(operator: Operator, request: ClockRequest, other: OtherWorker, steps: Steps) -> ClockReading:
    rounds = ClockedRounds(Definition(operator, request.task.case), request, other)
    if request.here:
        return rounds.read(CallsOnSets(operator, rounds.request, rounds.memory.data, steps).deliver)
    return rounds.read(partial(other.ask, replace(rounds.request, memory=rounds.memory.words())))


class ClockedRounds:
    """Rounds of calls on sets of inputs that the other worker sees. MemoryError if not one fits."""

    def __init__(self, definition: Definition, request: ClockRequest, other: OtherWorker) -> None:
        self._definition, self._device = definition, (device := other.device)
        self._inputs = Inputs(definition, device, secrets.randbits(62))
        draw_ms = min(self._draw_ms() for _ in range(DRAWS))
        shapes = tuple(definition.declared_shape(output) for output in definition.outputs)
        first = Expected(definition, self._inputs.draw("first"), shapes=shapes)
        inputs, end = lay_out(first.inputs)
        outputs, step = lay_out(blank_outputs(first), end)
        most_bytes = MEMORY_BYTES if device.accelerated else HOST_MEMORY_BYTES
        most_bytes = min(most_bytes, (device.free_bytes() or 0) // MEMORY_SHARE)
        wanted = max(1, int(min(MOST_SETS, ROUND_MS / request.claimed_ms, DRAWING_MS / draw_ms)))
        count = min(wanted, most_bytes // max(step, 1))
        if not count:
            raise MemoryError
        self.memory = SharedMemory(count * step, device.torch_device, other.folder)
        self.request = CallRequest(request.task, "the inputs of timed calls", "", inputs, outputs, count, step)
        self._sets = sets_of(self.request, self.memory.data)
        self._judged, self._max_ms = 0 if request.here else JUDGED, request.task.settings.max_ms
        self._rounds = max(LEAST_ROUNDS, min(ROUNDS, int(self._max_ms / (count * request.claimed_ms))))
        self._fill([first.inputs] * count)

    def read(self, deliver: Callable[[], Delivered]) -> ClockReading:
        """The reading for what makes the calls, and returns when all outputs are written."""
        shortest_ms, judged = math.inf, list[tuple[Expected, list[Tensor]]]()
        for number in range(self._rounds + 1):
            drawn = [self._inputs.draw(f"{number}/{index}") for index in range(len(self._sets))]
            begun = self._fill(drawn)
            delivered = deliver()
            round_ms = (time.perf_counter() - begun) * 1e3
            if delivered.status:
                return ClockReading(wrong=delivered.reason if delivered.opened else "")
            if number and round_ms < shortest_ms:  # the first round builds the provider
                shortest_ms = round_ms
                chosen = random.SystemRandom().sample(range(len(drawn)), min(len(drawn), self._judged))
                # the outputs are copied at once: the other worker can still write
                judged = [(Expected(self._definition, drawn[i]), [x.clone() for x in self._sets[i][1]]) for i in chosen]
                self._device.synchronize()
        begun, core_begun = time.perf_counter(), time.process_time()
        calls_ms = shortest_ms - min(self._copies_ms(drawn) for _ in range(ROUNDS))
        # how many times as long it takes on a host because other programs use the cores
        busy = max(1.0, (time.perf_counter() - begun) / (time.process_time() - core_begun))
        wrong, end = "", time.monotonic() + self._max_ms / 1e3
        for number, (expected, outputs) in enumerate(judged):
            if not wrong and (not number or time.monotonic() < end):
                wrong = compared(expected, outputs).wrong or ""
        count = len(self._sets)
        least_ms = ((calls_ms if self._device.accelerated else calls_ms / busy) - SLACK_MS) / count
        return ClockReading(least_ms, calls_ms / count, wrong)

    def _draw_ms(self) -> float:
        begun = time.perf_counter()
        self._inputs.draw("first")
        return (time.perf_counter() - begun) * 1e3

    def _fill(self, drawn: Sequence[Sequence[Tensor]]) -> float:
        """Write the inputs. The clock has begun to run before, at the time that is returned."""
        self._device.synchronize()
        begun = time.perf_counter()
        for (inputs, _), values in zip(self._sets, drawn, strict=True):
            fill(inputs, values)
        self._device.synchronize()
        return begun

    def _copies_ms(self, drawn: Sequence[Sequence[Tensor]]) -> float:
        """How long it takes to copy the inputs and outputs of all sets."""
        results = [torch.zeros_like(x) for x in self._sets[0][1]]
        begun = self._fill(drawn)
        for _, outputs in self._sets:
            for output, x in zip(outputs, results, strict=True):
                output.copy_(x)
        self._device.synchronize()
        return (time.perf_counter() - begun) * 1e3
