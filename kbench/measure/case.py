"""One case: check every provider, time the right ones in shuffled rounds, check again, and make the rows."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from torch import Tensor

from kbench.files import source_text
from kbench.measure.correctness.check import changed, judge, like, run_checked
from kbench.measure.correctness.definition import Definition, OperatorFault
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.entry import Entry
from kbench.measure.machine.device import Device, interpreter_probe, out_of_memory
from kbench.measure.machine.other_load import OtherLoad
from kbench.measure.machine.telemetry import Telemetry
from kbench.measure.operator_source import defining
from kbench.measure.rows import Frame, make_rows
from kbench.measure.timing.graph import GraphTimer
from kbench.measure.timing.stages import measure_stages
from kbench.measure.timing.timer import BenchTimer, Timer, measure_launch_ms
from kbench.protocol import INTEGER_LIMIT, Begin, End, Message, Tick
from kbench.registry import Operator, Provider, Unsupported
from kbench.results.row import CONTROL, STEPS, Case, Row, Status, Value, digest, now
from kbench.text.exception_text import describe, message, written_at

COPY_ALIGNMENT = 128
"""The copy control moves a multiple of so many elements: an odd length would cost the ceiling its wide accesses."""

SETTLE_WINDOW_S, SETTLE_READINGS, SETTLED, SETTLE_LIMIT_S = 0.02, 3, 0.01, 2.0
"""The clock has settled when this many readings, one a window apart, agree within this share; or when time is up."""

TIMERS: Mapping[str, Callable[[Device, str, float, float], Timer]] = {"do_bench": BenchTimer, "graph": GraphTimer}
"""By what a config calls them. What else is to be known of a timer stands in kbench/results/timers.py."""

Emit = Callable[[Message], None]


class DeviceLost(Exception):
    """The device no longer answers: this process is of no further use. Carries the entry that did it."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.reason)
        self.entry = entry


@dataclass(frozen=True)
class Settings:
    """The part of a config's `measure` that the worker needs. Times in ms and s, as named."""

    timer: str
    cache: str
    stages: bool
    warmup_ms: float
    rep_ms: float
    rounds: int
    seed: int
    timeout_s: float
    build_timeout_s: float
    threads: int | None = None


class CaseRun:
    """Measures one case in this process.

    `curves` are (provider name, parameters) pairs; `baseline` is the index of the one that speed-ups refer to;
    `ceiling_gbps` is what the session's large copy reached.
    """

    def __init__(
        self,
        operator: Operator,
        case: Case,
        curves: Sequence[tuple[str, Mapping[str, Value]]],
        *,
        baseline: int | None,
        settings: Settings,
        session: int,
        device: Device,
        telemetry: Telemetry,
        emit: Emit,
        ceiling_gbps: float | None = None,
    ) -> None:
        self.operator, self.case, self.settings, self.session = operator, case, settings, session
        self.device, self.telemetry, self.emit, self.baseline = device, telemetry, emit, baseline
        self.ceiling_gbps = ceiling_gbps
        self.timer: Timer = TIMERS[settings.timer](device, settings.cache, settings.warmup_ms, settings.rep_ms)
        self.entries = [
            Entry(i, name, params, provider=operator.providers.get(name)) for i, (name, params) in enumerate(curves)
        ]
        self.random = random.Random(f"{settings.seed}/{session}/{case.key}")  # the order of each round
        self.definition = Definition(operator, case)
        self.drawn = Inputs(self.definition, device, settings.seed)
        self.load = OtherLoad()
        self.call_bytes = 0
        self.case_hash = ""
        self.started_at = now()

    def run(self) -> list[Row]:
        """Raises DeviceLost when a provider took the device down with it."""
        try:
            self.begin()
        except OperatorFault as fault:
            for entry in self.entries:
                entry.end(Status.ERROR, str(fault))
            return self.rows()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            for entry in self.entries:
                entry.end(Status.OOM, f"the case's inputs and reference do not fit into memory: {message(error)}")
            return self.rows()
        for entry in self.entries:
            self.prepare(entry)
        timed = [entry for entry in self.entries if entry.running]
        if timed:
            timed += self.controls()
            self.make_ready(timed)
            self.settle(timed)
            self.time(timed)
            for entry in timed:
                self.recheck(entry)
        self.doubt_the_operator()
        return self.rows()

    def begin(self) -> None:
        """Draw the inputs and ask the operator what it says of them, before any provider has run. Raises OperatorFault."""
        self.call_bytes = self.definition.bytes()
        self.case_hash = case_hash(self.operator, self.case, self.call_bytes, self.definition.tolerance())
        self.inputs = self.drawn.draw("timed")
        self.pristine = [x.clone() for x in self.inputs]
        self.first = Expected(self.definition, self.pristine)
        self.second = Expected(self.definition, self.drawn.draw("second"))
        self.last = Expected(self.definition, self.drawn.draw("last"))
        self.shape = self.first.shape

    # -- before timing

    def admit(self, entry: Entry) -> Provider | None:
        """The entry's provider, when it exists, can run on this machine and does this case; else the entry ends.

        To be called in a guard: it is the provider that is asked.
        """
        provider = entry.provider
        if provider is None:
            entry.end(Status.ERROR, f"no provider {entry.name!r}")
        elif reason := provider.unavailable(self.device.type):
            entry.end(Status.UNAVAILABLE, reason)
        elif reason := provider.declines(self.case):
            entry.end(Status.UNSUPPORTED, reason)
        return provider if entry.running else None

    def prepare(self, entry: Entry) -> None:
        """Build and check one provider: afterwards it either runs or has ended with a reason."""
        with self.guard(entry, "build", self.settings.build_timeout_s):
            provider = self.admit(entry)
            if provider is None:
                return
            if provider.moved_bytes:
                entry.moved_bytes = _moved_bytes(provider.moved_bytes(self.case))
            start = time.perf_counter()
            entry.fn = fn = provider.bind(self.case, entry.params)
            interpreted = interpreter_probe()
            self.device.poison(self.shape, like(self.inputs).dtype)
            output = fn(*self.inputs)
            self.device.synchronize()
            entry.build_ms = (time.perf_counter() - start) * 1e3
        if not entry.running:
            return
        with self.guard(entry, "check", self.settings.timeout_s):
            entry.judged(judge(self.first, self.inputs, output, output), "")
            del output
            if entry.running:
                again = run_checked(self.second, fn, self.inputs, self.device)
                entry.judged(again, "right at the first call, then ")
            if entry.running and interpreted():
                entry.end(Status.CHECKED)
            if entry.running:
                entry.launch_ms = measure_launch_ms(lambda: fn(*self.inputs), self.device)
        self.refill(self.pristine)

    def refill(self, values: Sequence[Tensor]) -> None:
        for x, value in zip(self.inputs, values, strict=True):
            x.copy_(value)

    # -- timing

    def controls(self) -> list[Entry]:
        """The rows kbench adds itself: `copy` moves as many bytes as the operator has to, `empty` does nothing,
        `repeat` is the baseline once more."""
        elements = -(-self.call_bytes // (2 * self.case.itemsize * COPY_ALIGNMENT)) * COPY_ALIGNMENT
        count = len(self.entries)
        copy = Entry(count, "copy", {}, CONTROL, fn=lambda source, target: target.copy_(source))
        with self.guard(copy, "build", self.settings.build_timeout_s):
            copy.buffers = [(self.drawn.normal(elements), self.drawn.normal(elements)) for _ in range(self.sets)]
        empty = Entry(count + 1, "empty", {}, CONTROL, fn=self.device.empty_call, buffers=[()])
        with self.guard(empty, "build", self.settings.build_timeout_s):
            empty.sample = self.timer.empty()
        added = [copy, empty]
        if self.baseline is not None and (fn := self.entries[self.baseline].fn):
            # timed as what it repeats: the timer prepares a launch by the time that the host needs for it
            launch_ms = self.entries[self.baseline].launch_ms
            added.append(Entry(count + 2, "repeat", {}, CONTROL, fn=fn, launch_ms=launch_ms))
        self.entries += added
        return added

    @property
    def sets(self) -> int:
        """How many sets of buffers the timer rotates over."""
        return self.timer.sets(self.call_bytes)

    @cached_property
    def rotated(self) -> list[tuple[Tensor, ...]]:
        """The case's inputs, and as many copies of them as the timer wants."""
        return [self.inputs, *(tuple(x.clone() for x in self.pristine) for _ in range(self.sets - 1))]

    def make_ready(self, entries: Sequence[Entry]) -> None:
        """Give every entry its buffers and its sampler. A timer that cannot take an entry declines it, with the reason."""
        for entry in entries:
            if not entry.running:
                continue
            with self.guard(entry, "build", self.settings.build_timeout_s):
                assert entry.fn is not None
                entry.buffers = entry.buffers or self.rotated
                entry.sample = entry.sample or self.timer.ready(entry.fn, entry.buffers, entry.launch_ms)
                self.blame_for_changes(entry)
                if self.settings.stages and entry.running and not entry.control:
                    entry.stages = measure_stages(self.device, self.inputs)

    def settle(self, entries: Sequence[Entry]) -> None:
        """Run the entries until the clock of the device has settled: an idle device needs some time to come up to speed,
        and whoever is timed first would pay for it."""
        clocks: list[float] = []
        end = time.monotonic() + SETTLE_LIMIT_S
        while time.monotonic() < end:
            clock = self.telemetry.read().sm_mhz
            if clock is None:
                return  # nobody knows the clock; each round warms up by itself
            clocks = [*clocks, clock][-SETTLE_READINGS:]
            if len(clocks) == SETTLE_READINGS and max(clocks) <= (1 + SETTLED) * min(clocks):
                return
            running = [entry for entry in entries if entry.running]
            for entry in running:
                with self.guard(entry, "time", self.settings.timeout_s):
                    self.occupy(entry, SETTLE_WINDOW_S / len(running))
                    self.blame_for_changes(entry)

    def occupy(self, entry: Entry, seconds: float) -> None:
        """Keep the device at an entry's work for so long."""
        assert entry.fn is not None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            entry.fn(*entry.buffers[0])
            self.device.synchronize()

    def time(self, entries: Sequence[Entry]) -> None:
        for number in range(self.settings.rounds):
            order = [entry for entry in entries if entry.running]
            self.random.shuffle(order)
            for entry in order:
                with self.guard(entry, "time", self.settings.timeout_s):
                    self.time_round(entry, number)

    def blame_for_changes(self, entry: Entry) -> None:
        """The inputs are shared: whoever ran last must have left them as they were. Repairs them for the others."""
        if fault := changed(self.inputs, self.pristine):
            self.refill(self.pristine)
            entry.end(Status.WRONG, fault)

    def time_round(self, entry: Entry, number: int) -> None:
        assert entry.sample is not None
        before = self.telemetry.read()
        samples = entry.sample()
        entry.readings += [before, self.telemetry.read()]
        self.blame_for_changes(entry)
        if not entry.running:
            return
        entry.rounds.append(samples)
        self.emit(Tick(entry.index, entry.curve, number, median(samples)))

    # -- after timing

    def recheck(self, entry: Entry) -> None:
        """New values in the very buffers that were timed: whoever answers from memory is found out."""
        fn = entry.fn
        if entry.control or not entry.running or fn is None:
            return
        with self.guard(entry, "check", self.settings.timeout_s):
            found = run_checked(self.last, fn, self.inputs, self.device)
            entry.judged(found, "right before timing, wrong after it: ")

    def doubt_the_operator(self) -> None:
        """Say of the baseline, or of everybody, that is wrong: it may be the operator that is."""
        judged = [entry for entry in self.entries if not entry.control and entry.status in (Status.WRONG, None)]
        baseline = None if self.baseline is None else self.entries[self.baseline]
        if baseline in judged and baseline.status is Status.WRONG:
            doubted, who = [baseline], f"{baseline.curve} itself, the baseline, fails"
        elif len(judged) > 1 and all(entry.accuracy.wrong for entry in judged):
            doubted, who = judged, "every provider fails"
        else:
            return
        if not all(entry.accuracy.off for entry in doubted):
            return  # another shape, a changed input: no tolerance would help
        near = all(entry.accuracy.near for entry in doubted)
        what = "tolerance looks too narrow" if near else "reference may be what is wrong"
        for entry in doubted:
            entry.reason += f"; {who}: the {what} (operator {self.operator.name})"

    # -- failures

    @contextmanager
    def guard(self, entry: Entry, step: str, limit_s: float) -> Iterator[None]:
        """Announces a step to the parent, which holds the clock, and turns what a provider raises into its own row."""
        self.emit(Begin(entry.index, entry.curve, step, limit_s))
        try:
            yield
        except OperatorFault as fault:
            entry.end(Status.ERROR, str(fault))
        except Unsupported as refusal:
            entry.end(Status.UNSUPPORTED, str(refusal) or "declined without a reason")
        except BaseException as error:  # noqa: BLE001  whatever a provider raises is its own row
            status = Status.OOM if out_of_memory(error) else Status.ERROR
            entry.end(status, f"{describe(error, _place(entry))} (while {STEPS[step]})")
            del error
            self.device.release()
            if not self.device.healthy():
                raise DeviceLost(entry) from None
        self.emit(End(entry.index))

    # -- rows

    def rows(self) -> list[Row]:
        frame = Frame(
            case=self.case,
            call_bytes=self.call_bytes,
            baseline=self.baseline,
            cache_bytes=self.device.cache_bytes,
            ceiling_gbps=self.ceiling_gbps,
            peak_gbps=self.telemetry.peak_gbps(),
            accelerated=self.device.accelerated,
            cold=self.timer.cold(self.call_bytes),
            prefill_ms=self.timer.prefill_ms,
            common={
                "session": self.session,
                "timer": self.timer.name,
                "cache": self.settings.cache,
                "device": self.device.name,
                "started_at": self.started_at,
                "case_hash": self.case_hash,
                "other_cores": self.load.cores(),
            },
        )
        return make_rows(frame, self.entries)


def _place(entry: Entry) -> str:
    """Where the provider's function is written: what is to blame where no line of it has run, as when it takes other
    arguments than it is given."""
    return written_at(entry.provider.function) if entry.provider else ""


def _moved_bytes(value: Any) -> int:
    """What a provider says it moves. Raises TypeError and ValueError for what is no number of bytes."""
    count = int(value)
    if not 0 <= count < INTEGER_LIMIT:
        raise ValueError("moved_bytes is negative, or more bytes than there are")
    return count


def case_hash(operator: Operator, case: Case, call_bytes: int, tolerance: float) -> str:
    """Tells two definitions of the same case apart: the operator's source with its bytes, inputs and tolerance. The kernels
    that stand in the same file are no part of it."""
    file = inspect.getsourcefile(operator.reference)
    source = source_text(Path(file)) if file else None
    return digest(
        [
            digest(source and defining(source, operator.name)),
            case.to_json(),
            call_bytes,
            tolerance,
            operator.output_ulps,
        ]
    )
