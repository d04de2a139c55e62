"""Times closures beside each other: the first of every line of a point, then the second, and so on. Or a single one.

It is what `CaseRun` is for an operator. A closure has no declared inputs, so kbench cannot change them before a timed call, and
it has no reference. So every row is `unchecked`, and says whether the line returns the same as the baseline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call
from kbench.measure.correctness.definition import Work
from kbench.measure.experiment import Experiment, repeat
from kbench.measure.machine.device import Device
from kbench.measure.machine.dynamo import compiled_parts
from kbench.measure.machine.interpreter import interpreter_probe
from kbench.measure.rows import make_rows, time_of
from kbench.measure.scripts.closures import doubted_bytes, tensor_bytes, tensors_of
from kbench.measure.scripts.foreign_timers import BenchCall, Timing
from kbench.measure.scripts.observation import agreement, copied_tensors, lies_in, observe
from kbench.measure.scripts.session import Session
from kbench.measure.steps import Steps
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import measure_launch_ms
from kbench.protocol import Measure
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.stamps import digest
from kbench.results.vocabulary import Noticed, Status

UNCOUNTED = Work(0, None)
"""The work of a call that a script does not count."""


@dataclass(eq=False, kw_only=True)
class Closure(Contender):
    """A contender that is a closure of a script, and what is known of it beside its time.

    call          of the script's timer, which it has as soon as its line makes one
    run           has something done in its thread, within a limit in s
    error         what it raised
    output        copies of the tensors that its first call returned; None if it returned something else
    reuses        a tensor that it returned lies in memory that existed before the call
    script_ms     what the script's timer alone reads, with the arguments of the script
    dtype         that of the largest tensor that it holds; None without tensors
    tensor_bytes  how many bytes its tensors show that it moves, at least and at most
    noticed       what it does beside its computation
    kernels       the names of the kernels that it runs on a device, or of torch's operations on a host, in order; None if
                  nobody could look
    units         by how many the script divides its time; so do the rows
    work          what the script counts as its work, bytes or operations
    """

    call: BenchCall = field(init=False)
    run: Callable[[Callable[[], Any], float], Any]
    error: BaseException | None = None
    output: list[Tensor] | None = None
    reuses: bool = False
    script_ms: float | None = None
    dtype: torch.dtype | None = None
    tensor_bytes: tuple[int, float] = (0, math.inf)
    noticed: tuple[Noticed, ...] = ()
    kernels: tuple[str, ...] | None = None
    units: int = 1
    work: Work = UNCOUNTED

    @property
    def answer(self) -> Timing | BaseException:
        """What the script gets for it: its time, or what to raise."""
        if self.rounds:
            return Timing(time_of(self), [ms for samples in self.rounds for ms in samples])
        if self.status is Status.UNSUPPORTED and self.error is None:  # kbench does not time it
            return Timing.of([self.script_ms or self.build_ms or math.nan])
        return self.error or RuntimeError(self.reason)


INTERPRETED = "Triton's interpreter ran it, which says nothing about its speed"

ON_HOST = "it runs nothing on the device and its tensors are on the host; to time the host, set CUDA_VISIBLE_DEVICES=''"

MOST_WARMUP_MS, MOST_REP_MS = 25.0, 50.0
"""A script may ask for seconds. This is enough to know what it would read."""


def time_plainly(device: Device, call: BenchCall) -> list[float]:
    """The samples, in ms, that the script's timer alone reads for a call: without a spin and without rounds. A host has no
    graphs, so there the cache is only left alone. A profiler would be the second, and is not started."""
    warmup_ms, rep_ms = min(call.warmup_ms, MOST_WARMUP_MS), min(max(call.rep_ms, 1.0), MOST_REP_MS)
    if call.method == "loop":
        return [_one_after_another(device, call, rep_ms)]
    if not device.accelerated:
        timer = BenchTimer(device, "warm" if call.method == "graph" else "cold")
        return timer.ready([call.fn], None, call.clear_gradients)(warmup_ms, rep_ms).ms
    import triton.testing

    if call.method == "graph":
        call.clear_gradients()
        return list(triton.testing.do_bench_cudagraph(call.fn, rep=rep_ms, return_mode="all"))
    cleared = list(call.grad_to_none) or None
    return list(triton.testing.do_bench(call.fn, warmup_ms, rep_ms, grad_to_none=cleared, return_mode="all"))


def _one_after_another(device: Device, call: BenchCall, rep_ms: float) -> float:
    """The time of one of many calls by the clock of the host, which waits for the last."""
    count, elapsed_ms = 1, 0.0
    while elapsed_ms < rep_ms:
        count *= 4
        device.synchronize()
        start = time.perf_counter_ns()
        for _ in range(count):
            call.fn()
        device.synchronize()
        elapsed_ms = (time.perf_counter_ns() - start) / 1e6
    return elapsed_ms / count


class ClosureGroup(Experiment):
    """The closures that are timed beside each other, or a single one, `alone`. `ended` are contenders of lines that have failed
    before their closure. The baseline is the closure of the first line of a plot."""

    shorter = True  # perhaps: nobody knows the dtypes of all inputs
    unchecked = True
    baseline: Closure | None

    def __init__(self, session: Session, settings: Measure, case: Case, *, alone: bool = False) -> None:
        steps = Steps(session.device, session.emit, None)
        super().__init__(session.instruments, steps, settings, session.number, case)
        self.sees_launches, self.alone = session.sees_launches, alone
        self.closures: list[Closure] = []
        self.ended: list[Contender] = []
        self._repeat: list[Contender] = []

    @property
    def contenders(self) -> list[Contender]:
        """Those of the closures, and of the lines that ended before they had one."""
        return [*self.closures, *self.ended]

    # -- building

    def prepare(self, closure: Closure) -> None:
        """Call a closure for the first time, and make it ready to be timed. Raises what it raises."""
        self.closures.append(closure)
        if closure.index == 0 and not self.alone:
            self.baseline = closure
        try:
            closure.run(partial(self._prepare, closure), self.settings.build_timeout_s)
        except BaseException as error:
            closure.error = error
            raise

    def _prepare(self, closure: Closure) -> None:
        call = closure.call
        tensors, _ = tensors_of(call.fn)
        if tensors:
            closure.dtype = max(tensors, key=lambda x: x.numel() * x.element_size()).dtype
        interpreted = interpreter_probe()
        call.clear_gradients()
        # a script may draw its tensors on another stream, for which a closure does not wait
        self.device.synchronize()
        start = time.perf_counter_ns()
        returned = call.fn()
        self.device.synchronize()
        closure.build_ms = (time.perf_counter_ns() - start) / 1e6
        closure.output, closure.reuses = copied_tensors(returned), lies_in(returned, tensors)
        closure.tensor_bytes = tensor_bytes(call.fn, returned)
        del returned
        if interpreted():
            closure.end(Status.UNSUPPORTED, INTERPRETED)
            return
        if call.method != "kernels":
            closure.script_ms = median(time_plainly(self.device, call))
        call.clear_gradients()
        with compiled_parts() as closure.compiled:
            closure.noticed, closure.kernels = observe(call.fn, tensors, self.device)
        moved = closure.output or tensors
        if self._launches_nothing(closure) and moved and all(x.device.type == "cpu" for x in moved):
            closure.end(Status.UNSUPPORTED, ON_HOST)
            return
        closure.launch_ms = measure_launch_ms(call.fn, self.device)
        before = call.clear_gradients if call.grad_to_none else None
        sample = self.timer.ready([call.fn], closure.launch_ms, before)
        limit_s = self.settings.timeout_s
        closure.sample = lambda warmup_ms, rep_ms: closure.run(partial(sample, warmup_ms, rep_ms), limit_s)
        closure.calls = [Call(partial(closure.run, call.fn, limit_s))]

    # -- timing

    def time_all(self) -> None:
        """Time the closures that run, and the baseline once more."""
        closures, baseline = [closure for closure in self.closures if closure.running], self.baseline
        if baseline and baseline.running:
            self._repeat.append(repeat(0, baseline))
        if closures:
            self.time([*closures, *self._repeat])

    def _controls(self) -> list[Contender]:
        """The copy, which is timed now, as the script says only after its time how many bytes it moves; `empty`; the repeat.

        Their index is that of the first line: the steps of a script are those of its lines, and the repeat is a call of it.
        """
        copies = [self.copy(0)] if self.work.call_bytes else []
        if copies and copies[0].running:
            self.time(copies)
        return [*copies, self.empty(0), *self._repeat]

    # -- rows

    def divide(self, closure: Closure, units: int) -> None:
        """Have the rows of a closure show the time of one of so many equal parts."""
        closure.units = units
        closure.script_ms = closure.script_ms and closure.script_ms / units
        for contender in (closure, *(self._repeat if closure is self.baseline else [])):
            contender.rounds = [[ms / units for ms in samples] for samples in contender.rounds]
            contender.gaps_ms = [ms / units for ms in contender.gaps_ms]
            contender.launch_ms = contender.launch_ms and contender.launch_ms / units

    def rows(self) -> list[Row]:
        """The rows of the contenders, then the controls. A closure that was timed alone has no row of a control."""
        contenders = sorted(self.contenders, key=lambda contender: contender.index)
        baseline = self.baseline
        works = (closure.work for closure in (baseline, *self.closures) if closure and any(closure.work))
        self.work = next(works, UNCOUNTED)
        for closure in self.closures:
            closure.moved_bytes = closure.work.call_bytes or None
        timed = any(contender.rounds for contender in contenders)
        controls = self._controls() if timed else []
        if timed and not self.alone:
            self.measure_ceilings()
        self.case_hash = digest(str(self.case.key))
        rows = make_rows(self, [*contenders, *controls])
        if not self.work.call_bytes:  # the script does not say how many
            for row in rows:
                row.gbps = row.gbps_p20 = row.gbps_p80 = row.copy_fraction = None
                row.sol = row.sol if self.work.flops else None
        for closure in self.closures:
            row = rows[contenders.index(closure)]
            if baseline and closure is not baseline and not closure.error and not baseline.error:
                row.agreement = agreement(closure.output, baseline.output)
            row.noticed = ";".join(self._noticed(closure, baseline))
            row.script_ms = closure.script_ms
            row.counted = closure.work.call_bytes or closure.work.flops
        return rows[: len(contenders)] if self.alone else rows

    def _launches_nothing(self, closure: Closure) -> bool:
        return self.sees_launches and closure.kernels == ()

    def _noticed(self, closure: Closure, baseline: Closure | None) -> Iterator[str]:
        """What there is to say of a closure, beside its time: of two lines that run the same kernels, it is said of the
        one that is not the baseline, or else of the later one."""
        yield from closure.noticed
        if self._launches_nothing(closure):
            yield Noticed.LAUNCHES_NOTHING
        if closure.call.method in ("graph", "loop"):  # which leave the inputs of a call in the cache
            yield Noticed.WARM
        count = closure.work.call_bytes
        if closure.units > 1:
            yield f"{Noticed.DIVIDED} {closure.units}"
        elif count and (moved := doubted_bytes(count, *closure.tensor_bytes)):
            yield f"{Noticed.TENSOR_BYTES} {moved}"
        if closure is baseline:
            return
        if baseline and closure.output and baseline.output and closure.reuses != baseline.reuses:
            yield Noticed.REUSES_MEMORY if closure.reuses else Noticed.ALLOCATES
        earlier = self.closures[: self.closures.index(closure)]
        for rival in earlier:
            same = closure.kernels and rival.kernels == closure.kernels
            if same and rival.dtype == closure.dtype:  # a Triton kernel has one name for all dtypes
                yield f"{Noticed.SAME_AS} {rival.configuration_name}"
                return
