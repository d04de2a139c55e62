"""One case of a script: builds its lines, times their closures in shuffled rounds, and makes the rows.

It is `CaseRun` without the checks. A closure has no declared inputs, so kbench cannot change them before a timed call, and it
has no reference. So every row is `unchecked`, and says whether the line returns the same as the baseline.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from kbench.measure.contender import Contender, letting_go
from kbench.measure.controls import Controls, repeat
from kbench.measure.correctness.call import Call
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.machine.device import Device
from kbench.measure.machine.interpreter import interpreter_probe
from kbench.measure.machine.other_load import OtherLoad
from kbench.measure.machine.telemetry import Telemetry
from kbench.measure.rounds import Rounds
from kbench.measure.rows import CaseContext, make_rows
from kbench.measure.scripts.agreement import agreement, copied_tensors
from kbench.measure.scripts.observation import Observation, lies_in, observe
from kbench.measure.session.ceiling import Ceilings
from kbench.measure.session.measurements import SessionMeasurements
from kbench.measure.steps import Emit, Steps
from kbench.measure.tampering import settings as process_settings
from kbench.measure.tampering.guard import Guard, ProviderChanges
from kbench.measure.timing.plain import plain_samples
from kbench.measure.timing.timer import make_timer, measure_launch_ms
from kbench.protocol import Configuration, Measure
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.stamps import digest, now
from kbench.results.timers import timer_kind
from kbench.results.vocabulary import Noticed, Role, Status
from kbench.sources.scripts.bench_call import BenchCall
from kbench.sources.scripts.closures import held_tensors
from kbench.sources.scripts.script_operator import CALL, BuiltLine, ScriptOperator
from kbench.text.words import plural


@dataclass
class FirstCall:
    """What the first call of a closure showed.

    switches     the switches of the script when it called do_bench, by name: the closure always runs with them
    output       copies of the tensors that it returned; None if it returned something else
    reuses       a tensor that it returned lies in memory that existed before the call
    build_ms     how long it took, compilers included
    interpreted  Triton's interpreter ran it, so its time says nothing
    """

    switches: Mapping[str, Any]
    output: list[Tensor] | None
    reuses: bool
    build_ms: float
    interpreted: bool


@dataclass
class Closure:
    """A closure of a contender, and what is known of it beside its time.

    script_ms  what do_bench alone reads, with the arguments of the script
    counted    what the script counts as its work
    seen       what one more call showed; nothing if it was not looked at
    """

    call: BenchCall
    first: FirstCall
    script_ms: float
    counted: tuple[str, float] | None
    seen: Observation = field(default_factory=Observation)


class Spare:
    """Draws the buffers of the copy control."""

    def __init__(self, case: Case, device: Device) -> None:
        self._dtype, self._device = getattr(torch, case.dtype), device.torch_device

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, device=self._device).to(self._dtype)


def time_plainly(device: Device, call: BenchCall) -> list[float]:
    """What do_bench alone reads for a call of a script, in ms."""
    graph = call.timer == "do_bench_cudagraph"
    return plain_samples(device, call.fn, call.warmup_ms, call.rep_ms, call.clear_gradients, graph=graph)


class ScriptRun:
    """Measures one case of a script in this process. The arguments are those of `CaseRun`."""

    def __init__(
        self,
        operator: ScriptOperator,
        case: Case,
        configurations: Sequence[Configuration],
        *,
        baseline: int | None,
        settings: Measure,
        session: int,
        device: Device,
        telemetry: Telemetry,
        emit: Emit,
        ceilings: Ceilings,
        measured: SessionMeasurements,
        guard: Guard,
    ) -> None:
        self.operator, self.case, self.settings, self.session = operator, case, settings, session
        self.device, self.telemetry, self.baseline = device, telemetry, baseline
        self.ceilings, self.measured = ceilings, measured
        self.steps = Steps(device, emit, guard)
        self.timer = make_timer(settings.timer, device, settings.cache)
        self.contenders = [Contender.of(index, one, operator) for index, one in enumerate(configurations)]
        for contender in self.contenders:
            contender.changes = ProviderChanges(own=dict(operator.plot.switches), script=True)
        self.load = OtherLoad()
        self.started_at = now()
        self._lines: dict[str, BuiltLine] = {}
        self._first: dict[int, FirstCall] = {}
        self._closures: dict[int, Closure] = {}

    def run(self) -> list[Row]:
        """Measure the case. Returns a row per configuration, then those of the controls. Raises DeviceLost when a closure has
        broken the device."""
        with letting_go(self.contenders):
            return self._run()

    def _run(self) -> list[Row]:
        for contender in self.contenders:
            self._build(contender)
        timed = [contender for contender in self.contenders if contender.running]
        if timed:
            timed += [control for control in self._add_controls() if not control.rounds]
            self._time_rounds(timed)
        return self._rows()

    # -- building

    def _build(self, contender: Contender) -> None:
        with self.steps.step(contender, "build", self.settings.build_timeout_s):
            if contender.admitted(self.case, self.device.type) is None:
                return
            if contender.name not in self._lines:
                self._lines[contender.name] = self.operator.build(
                    self.case, contender.name, self.settings.seed, self._time_plainly
                )
            line = self._lines[contender.name]
            number = int(contender.params.get(CALL) or 1)
            if number > len(line.calls):
                times = (
                    f"calls do_bench only {plural(len(line.calls), 'time')}" if line.calls else "does not call do_bench"
                )
                contender.end(Status.UNSUPPORTED, f"the script {times} for this line in this case")
                return
            call = line.calls[number - 1]
            first = self._first[id(call)]
            contender.build_ms = first.build_ms
            self._closures[contender.index] = Closure(
                call, first, median(line.plain_ms[number - 1]), line.counted if len(line.calls) == 1 else None
            )
            if first.interpreted:
                contender.end(Status.UNSUPPORTED, "Triton's interpreter ran it, which says nothing about its speed")
                return
            self._switch(contender, first.switches)
            call.clear_gradients()
            self._closures[contender.index].seen = observe(call.fn, held_tensors(call.fn), self.device)
            contender.launch_ms = measure_launch_ms(call.fn, self.device)
            contender.calls = [Call(call.fn)]
            before = call.clear_gradients if call.grad_to_none else None
            contender.sample = self.timer.ready([call.fn], contender.launch_ms, before)

    def _switch(self, contender: Contender, switches: Mapping[str, Any]) -> None:
        """Give a contender its switches, for now and for its next steps. The function of the script may have put them back,
        as at the end of `with torch.no_grad():`."""
        assert contender.changes
        contender.changes.own.update(switches)
        process_settings.write(switches)

    def _time_plainly(self, call: BenchCall) -> list[float]:
        """Call a closure for the first time, then time it as the script asks. The script goes on with this time."""
        switches = process_settings.read()
        interpreted = interpreter_probe()
        call.clear_gradients()
        start = time.perf_counter_ns()
        returned = call.fn()
        self.device.synchronize()
        build_ms = (time.perf_counter_ns() - start) / 1e6
        reuses = lies_in(returned, held_tensors(call.fn).values())
        self._first[id(call)] = first = FirstCall(switches, copied_tensors(returned), reuses, build_ms, interpreted())
        del returned
        return [build_ms] if first.interpreted else time_plainly(self.device, call)

    # -- timing

    @property
    def _counted(self) -> dict[str, float]:
        """The work that the script counts for the baseline, or else for the first line: `bytes` or `flops`."""
        order = sorted(self._closures, key=lambda index: index != self.baseline)
        found = next((self._closures[index].counted for index in order if self._closures[index].counted), None)
        return {found[0]: found[1]} if found else {}

    def _add_controls(self) -> list[Contender]:
        call_bytes = round(self._counted.get("bytes", 0))
        controls = Controls(
            self.case,
            call_bytes,
            inputs=Spare(self.case, self.device),
            timer=self.timer,
            steps=self.steps,
            build_timeout_s=self.settings.build_timeout_s,
            measure_empty=partial(self.measured.empty, self.timer, self.settings.cache),
        )
        if call_bytes:
            copy = controls.copy(len(self.contenders))
            with self.steps.step(copy, "build", self.settings.build_timeout_s):
                copy.sample = self.timer.ready([call.run for call in copy.calls], None)
            self.contenders.append(copy)
        self.contenders.append(controls.empty(len(self.contenders)))
        if self.baseline is not None and self.contenders[self.baseline].running:
            base = self.contenders[self.baseline]
            again = repeat(len(self.contenders), base)
            again.calls = base.calls
            again.sample = base.sample
            self.contenders.append(again)
        return [each for each in self.contenders if each.control and each.running]

    def _time_rounds(self, contenders: Sequence[Contender]) -> None:
        rounds = Rounds(
            contenders,
            baseline=None if self.baseline is None else self.contenders[self.baseline],
            inputs=SharedInputs((), ()),
            steps=self.steps,
            telemetry=self.telemetry,
            clock=self.measured.clock,
            settings=self.settings,
            resolution_ms=timer_kind(self.timer.name).resolution_ms,
            order=random.Random(f"{self.settings.seed}/{self.session}/{self.case.key}"),
        )
        rounds.run()

    # -- rows

    def _rows(self) -> list[Row]:
        counted = self._counted
        call_bytes, flops = round(counted.get("bytes", 0)), round(counted.get("flops", 0)) or None
        timed = any(contender.rounds for contender in self.contenders)
        context = CaseContext(
            case=self.case,
            call_bytes=call_bytes,
            flops=flops,
            shorter=True,  # nobody knows the dtypes of all inputs
            baseline=self.baseline,
            cache_bytes=self.device.cache_bytes if call_bytes else None,
            ceiling_gbps=self.ceilings.gbps() if timed else None,
            ceiling_tflops=self.ceilings.tflops(self.case.dtype) if timed and flops else None,
            peak_gbps=self.telemetry.peak_gbps,
            accelerated=self.device.accelerated,
            cold=self.timer.cold(call_bytes),
            prefill_ms=self.timer.prefill_ms,
            common={
                "session": self.session,
                "timer": self.timer.name,
                "cache": self.settings.cache,
                "device": self.device.name,
                "started_at": self.started_at,
                "case_hash": digest(str(self.case.key)),
                "other_cores": self.load.cores(),
            },
            unchecked=True,
        )
        for index, closure in self._closures.items():
            if closure.counted and closure.counted[0] == "bytes" and self.contenders[index].running:
                self.contenders[index].moved_bytes = round(closure.counted[1])
        rows = make_rows(context, self.contenders)
        if not call_bytes:
            rows = [_without_bytes(row, known=bool(flops)) for row in rows]
        return [self._with_facts(index, row) for index, row in enumerate(rows)]

    def _with_facts(self, index: int, row: Row) -> Row:
        """The row with what is known of its closure."""
        if row.role != Role.PROVIDER or index not in self._closures:
            return row
        closure = self._closures[index]
        base = None if self.baseline is None else self._closures.get(self.baseline)
        if self.baseline is not None and row.provider == self.contenders[self.baseline].name:
            base = None  # another call of the same line computes something else
        other = base.first.output if base else None
        return replace(
            row,
            agreement=agreement(closure.first.output, other) if base else "",
            noticed=";".join(self._noticed(index, closure)),
            script_ms=closure.script_ms,
            counted=closure.counted[1] if closure.counted else None,
        )

    def _noticed(self, index: int, closure: Closure) -> Iterator[str]:
        """What there is to say of a closure, beside its time: of two lines that run the same kernels, it is said of the
        one that is not the baseline, or else of the later one."""
        yield from closure.seen.noticed
        if closure.call.timer == "do_bench_cudagraph":
            yield Noticed.GRAPH
        if index == self.baseline:
            return
        base = None if self.baseline is None else self._closures.get(self.baseline)
        if base and closure.first.output and base.first.output and closure.first.reuses != base.first.reuses:
            yield Noticed.REUSES_MEMORY if closure.first.reuses else Noticed.ALLOCATES
        if not closure.seen.kernels:
            return
        for other, earlier in sorted(self._closures.items(), key=lambda pair: pair[0] != self.baseline):
            if (other == self.baseline or other < index) and earlier.seen.kernels == closure.seen.kernels:
                yield f"{Noticed.SAME_AS} {self.contenders[other].configuration_name}"
                return


def _without_bytes(row: Row, *, known: bool) -> Row:
    """A row of a script that does not say how many bytes a call moves. `known`: it says how many operations."""
    row = replace(row, gbps=None, gbps_p20=None, gbps_p80=None, copy_fraction=None)
    return row if known else replace(row, sol=None)
