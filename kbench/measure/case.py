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

import torch
from torch import Tensor

from kbench.faults import describe, message
from kbench.measure.check import changed, judge, output_shape, run_checked
from kbench.measure.device import Device, interpreter_probe, out_of_memory
from kbench.measure.entry import Entry
from kbench.measure.graph import GraphTimer
from kbench.measure.rows import Frame, make_rows
from kbench.measure.stages import measure_stages
from kbench.measure.telemetry import Telemetry
from kbench.measure.timer import MAX_PREFILL_MS, BenchTimer, Timer, launch_ms
from kbench.registry import Operator, Provider, Unsupported
from kbench.results import CONTROL, STEPS, Case, Row, Status, Value, digest, now

COPY_ALIGNMENT = 128
"""The copy control moves a multiple of so many elements: an odd length would cost the ceiling its wide accesses."""

SETTLE_WINDOW_S, SETTLE_READINGS, SETTLED, SETTLE_LIMIT_S = 0.02, 3, 0.01, 2.0
"""The clock has settled when this many readings, one a window apart, agree within this share; or when time is up."""

Emit = Callable[[dict[str, Any]], None]


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
        kind = GraphTimer if settings.timer == "graph" else BenchTimer
        self.timer: Timer = kind(device, settings.cache, settings.warmup_ms, settings.rep_ms)
        self.entries = [
            Entry(i, name, params, provider=operator.providers.get(name)) for i, (name, params) in enumerate(curves)
        ]
        self.random = random.Random(f"{settings.seed}/{session}/{case.key}")
        self.generator = torch.Generator(device.torch_device).manual_seed(self.random.getrandbits(63))
        self.started_at = now()

    def run(self) -> list[Row]:
        """Raises DeviceLost when a provider took the device down with it."""
        try:
            self.inputs = self.draw()
            self.pristine = [x.clone() for x in self.inputs]
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            for entry in self.entries:
                entry.end(Status.OOM, f"the case's inputs do not fit into memory: {message(error)}")
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
        return self.rows()

    def draw(self) -> tuple[Tensor, ...]:
        """Fresh random inputs."""
        return self.operator.inputs(self.case, self.randn)

    def randn(self, *shape: int) -> Tensor:
        """Standard normal values of the case's dtype on the device, fresh at every call."""
        dtype = getattr(torch, self.case.dtype)
        return torch.randn(shape, dtype=dtype, device=self.device.torch_device, generator=self.generator)

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
                entry.moved_bytes = int(provider.moved_bytes(self.case))
            shape = output_shape(self.operator, self.case, self.inputs)
            start = time.perf_counter()
            entry.fn = fn = provider.bind(self.case, entry.params)
            interpreted = interpreter_probe()
            self.device.poison(shape, self.inputs[0].dtype)
            output = fn(*self.inputs)
            self.device.synchronize()
            entry.build_ms = (time.perf_counter() - start) * 1e3
        if not entry.running:
            return
        with self.guard(entry, "check", self.settings.timeout_s):
            entry.judged(judge(self.operator, self.case, self.inputs, self.pristine, output, output), "")
            del output
            if entry.running:
                values = self.draw()
                again = run_checked(self.operator, self.case, fn, self.inputs, values, self.device)
                entry.judged(again, "right at the first call, then ")
            if entry.running and interpreted():
                entry.end(Status.CHECKED)
            if entry.running:
                entry.host_ms = launch_ms(lambda: fn(*self.inputs), self.device)
        self.refill(self.pristine)

    def refill(self, values: Sequence[Tensor]) -> None:
        for x, value in zip(self.inputs, values, strict=True):
            x.copy_(value)

    # -- timing

    def controls(self) -> list[Entry]:
        """The rows kbench adds itself: `copy` moves as many bytes as the operator has to, `empty` does nothing,
        `repeat` is the baseline once more."""
        elements = -(-self.operator.bytes(self.case) // (2 * self.case.itemsize * COPY_ALIGNMENT)) * COPY_ALIGNMENT
        count = len(self.entries)
        copy = Entry(count, "copy", {}, CONTROL, fn=lambda source, target: target.copy_(source))
        with self.guard(copy, "build", self.settings.build_timeout_s):
            copy.buffers = [(self.randn(elements), self.randn(elements)) for _ in range(self.sets)]
        empty = Entry(count + 1, "empty", {}, CONTROL, fn=self.device.empty_call, buffers=[()])
        with self.guard(empty, "build", self.settings.build_timeout_s):
            empty.sample = self.timer.empty()
        added = [copy, empty]
        if self.baseline is not None and (fn := self.entries[self.baseline].fn):
            # timed as what it repeats: the timer prepares a launch by the time that the host needs for it
            host_ms = self.entries[self.baseline].host_ms
            added.append(Entry(count + 2, "repeat", {}, CONTROL, fn=fn, host_ms=host_ms))
        self.entries += added
        return added

    @property
    def sets(self) -> int:
        """How many sets of buffers the timer rotates over."""
        return self.timer.sets(self.operator.bytes(self.case))

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
                entry.sample = entry.sample or self.timer.ready(entry.fn, entry.buffers, entry.host_ms)
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
        self.emit({"type": "tick", "index": entry.index, "name": entry.curve, "round": number, "ms": median(samples)})

    # -- after timing

    def recheck(self, entry: Entry) -> None:
        """New values in the very buffers that were timed: whoever answers from memory is found out."""
        fn = entry.fn
        if entry.control or not entry.running or fn is None:
            return
        with self.guard(entry, "check", self.settings.timeout_s):
            found = run_checked(self.operator, self.case, fn, self.inputs, self.draw(), self.device)
            entry.judged(found, "right before timing, wrong after it: ")

    # -- failures

    @contextmanager
    def guard(self, entry: Entry, step: str, limit_s: float) -> Iterator[None]:
        """Announces a step to the parent, which holds the clock, and turns what a provider raises into its own row."""
        self.emit({"type": "begin", "index": entry.index, "name": entry.curve, "step": step, "limit_s": limit_s})
        try:
            yield
        except Unsupported as refusal:
            entry.end(Status.UNSUPPORTED, str(refusal) or "declined without a reason")
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a provider raises is its own row
            status = Status.OOM if out_of_memory(error) else Status.ERROR
            entry.end(status, f"{describe(error)} (while {STEPS[step]})")
            del error
            self.device.release()
            if not self.device.healthy():
                raise DeviceLost(entry) from None
        self.emit({"type": "end", "index": entry.index})

    # -- rows

    def rows(self) -> list[Row]:
        frame = Frame(
            case=self.case,
            call_bytes=self.operator.bytes(self.case),
            baseline=self.baseline,
            cache_bytes=self.device.cache_bytes,
            ceiling_gbps=self.ceiling_gbps,
            peak_gbps=self.telemetry.peak_gbps(),
            accelerated=self.device.accelerated,
            cold=self.timer.cold(self.operator.bytes(self.case)),
            prefill_ms=MAX_PREFILL_MS if self.device.spin else 0.0,
            common={
                "session": self.session,
                "timer": self.timer.name,
                "cache": self.settings.cache,
                "device": self.device.name,
                "started_at": self.started_at,
                "case_hash": case_hash(self.operator, self.case),
            },
        )
        return make_rows(frame, self.entries)


def case_hash(operator: Operator, case: Case) -> str:
    """Tells two definitions of the same case apart: the operator's source with its bytes, inputs and tolerance."""
    file = inspect.getsourcefile(operator.reference)
    source = Path(file).read_text() if file and Path(file).exists() else ""
    return digest([digest(source), case.to_json(), operator.bytes(case), operator.tolerance(case)])
