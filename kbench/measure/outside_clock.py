"""Takes the time of calls with the clock of another process than the one that makes them.

The worker that judges writes sets of inputs, which it has just drawn, into memory that the other worker sees. That calls the
provider once on each set, and writes the outputs there. The clock runs from the first input to the last output, so no call can
be made before it or after it, and none left out: the outputs of some calls, chosen afterwards, are judged. What the copies of
inputs and outputs take is measured without calls.
"""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.measure.correctness.check import compared, fill
from kbench.measure.correctness.definition import Definition, OperatorFault
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.machine.device import out_of_memory
from kbench.measure.other_worker import CallsOnSets, OtherWorker, SharedMemory, blank_outputs, lay_out, sets_of
from kbench.measure.steps import Steps
from kbench.protocol import COMPUTE, CallRequest, ClockReading, ClockRequest, Delivered

ROUNDS, LEAST_ROUNDS, ROUND_MS = 10, 2, 5.0
"""How often it is done at most and at least, and how long the calls of one round take if what is claimed is right. A call that
takes longer is made less often, within `max_ms`. The shortest round counts: on a busy host, other programs get the core every
few ms."""

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
    """Rounds of calls on sets of inputs, in memory that the other worker sees. Raises MemoryError if not one set fits."""

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
        """Write the inputs, after the clock has begun to run at the time that is returned."""
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
