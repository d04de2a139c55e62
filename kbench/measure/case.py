"""One case: check every provider, time the right ones in shuffled rounds, check again, and make the rows."""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor

from kbench.measure.check import Accuracy, changed, judge, run_checked
from kbench.measure.device import Device, interpreter_probe, out_of_memory
from kbench.measure.telemetry import Reading, Telemetry, summary
from kbench.measure.timer import Timer, launch_ms
from kbench.registry import Operator, Provider, Unsupported, error_location
from kbench.results import CONTROL, PROVIDER, STEPS, Case, Row, Status, Value, digest, format_params, now

COPY_ALIGNMENT = 128
"""The copy control moves a multiple of so many elements: an odd length would cost the ceiling its wide accesses."""

Emit = Callable[[dict[str, Any]], None]


class DeviceLost(Exception):
    """The device no longer answers: this process is of no further use. Carries the entry that did it."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry.reason)
        self.entry = entry


@dataclass(frozen=True)
class Settings:
    """The part of a config's `measure` that the worker needs. Times in ms and s, as named."""

    cache: str
    warmup_ms: float
    rep_ms: float
    rounds: int
    seed: int
    timeout_s: float
    build_timeout_s: float


@dataclass
class Entry:
    """A provider with its parameters, or a control, on its way through a case."""

    index: int
    name: str
    params: Mapping[str, Value]
    role: str = PROVIDER
    provider: Provider | None = None
    fn: Callable[..., Any] | None = None
    status: Status | None = None
    reason: str = ""
    accuracy: Accuracy = field(default_factory=Accuracy)
    build_ms: float | None = None
    host_ms: float | None = None
    rounds: list[list[float]] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.status is None

    def end(self, status: Status, reason: str = "") -> None:
        self.status, self.reason = status, reason
        self.rounds, self.fn = [], None

    def judged(self, found: Accuracy, context: str) -> None:
        """Take note of a check; a wrong output ends the entry, with `context` before what was wrong."""
        self.accuracy = self.accuracy.worst(found)
        if found.wrong:
            self.end(Status.WRONG, context + found.wrong)


class CaseRun:
    """Measures one case in this process.

    `curves` are (provider name, parameters) pairs; `baseline` is the index of the one that speed-ups refer to.
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
    ) -> None:
        self.operator, self.case, self.settings, self.session = operator, case, settings, session
        self.device, self.telemetry, self.emit, self.baseline = device, telemetry, emit, baseline
        self.timer = Timer(device, settings.cache)
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
                entry.end(Status.OOM, f"the case's inputs do not fit into memory: {_first_line(error)}")
            return self.rows()
        for entry in self.entries:
            self.prepare(entry)
        timed = [entry for entry in self.entries if entry.running]
        if timed:
            timed += self.controls()
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

    def prepare(self, entry: Entry) -> None:
        """Build and check one provider: afterwards it either runs or has ended with a reason."""
        provider = entry.provider
        if provider is None:
            entry.end(Status.ERROR, f"no provider {entry.name!r}")
            return
        if reason := provider.unavailable(self.device.type):
            entry.end(Status.UNAVAILABLE, reason)
            return
        if reason := provider.declines(self.case):
            entry.end(Status.UNSUPPORTED, reason)
            return
        with self.guard(entry, "build", self.settings.build_timeout_s):
            start = time.perf_counter()
            entry.fn = fn = provider.bind(self.case, entry.params)
            interpreted = interpreter_probe()
            self.device.poison(self.inputs[0])
            output = fn(*self.inputs)
            self.device.synchronize()
            entry.build_ms = (time.perf_counter() - start) * 1e3
        if not entry.running:
            return
        with self.guard(entry, "check", self.settings.timeout_s):
            entry.judged(judge(self.operator, self.case, self.inputs, self.pristine, output), "")
            self.refill(self.pristine)
            del output
            if entry.running:
                again = run_checked(self.operator, self.case, fn, self.draw(), self.device)
                entry.judged(again, "right at the first call, then ")
            if entry.running and interpreted():
                entry.end(Status.CHECKED)
            if entry.running:
                entry.host_ms = launch_ms(lambda: fn(*self.inputs), self.device)

    def refill(self, values: Sequence[Tensor]) -> None:
        for x, value in zip(self.inputs, values, strict=True):
            x.copy_(value)

    # -- timing

    def controls(self) -> list[Entry]:
        """The rows kbench adds itself: `copy` moves as many bytes as the operator has to, `empty` does nothing,
        `repeat` is the baseline once more."""
        elements = -(-self.operator.bytes(self.case) // (2 * self.case.itemsize * COPY_ALIGNMENT)) * COPY_ALIGNMENT
        source = self.randn(elements)
        target = torch.empty_like(source)
        calls: dict[str, Callable[..., Any]] = {
            "copy": lambda *inputs: target.copy_(source),
            "empty": lambda *inputs: self.device.empty_call(),
        }
        if self.baseline is not None and (fn := self.entries[self.baseline].fn):
            calls["repeat"] = fn
        count = len(self.entries)
        added = [Entry(count + i, name, {}, role=CONTROL, fn=fn) for i, (name, fn) in enumerate(calls.items())]
        self.entries += added
        return added

    def time(self, entries: Sequence[Entry]) -> None:
        for number in range(self.settings.rounds):
            order = [entry for entry in entries if entry.running]
            self.random.shuffle(order)
            for entry in order:
                with self.guard(entry, "time", self.settings.timeout_s):
                    self.time_round(entry, number)

    def time_round(self, entry: Entry, number: int) -> None:
        fn, inputs = entry.fn, self.inputs
        assert fn is not None
        before = self.telemetry.read()
        samples = self.timer.samples(
            lambda: fn(*inputs),
            warmup_ms=self.settings.warmup_ms,
            rep_ms=self.settings.rep_ms,
            host_ms=entry.host_ms,
        )
        entry.readings += [before, self.telemetry.read()]
        if fault := changed(self.inputs, self.pristine):
            self.refill(self.pristine)
            entry.end(Status.WRONG, fault)
            return
        entry.rounds.append(samples)
        self.emit({"type": "tick", "index": entry.index, "name": entry.name, "round": number, "ms": median(samples)})

    # -- after timing

    def recheck(self, entry: Entry) -> None:
        """New values in the very buffers that were timed: whoever answers from memory is found out."""
        fn = entry.fn
        if entry.role == CONTROL or not entry.running or fn is None:
            return
        with self.guard(entry, "check", self.settings.timeout_s):
            self.refill(self.draw())
            found = run_checked(self.operator, self.case, fn, self.inputs, self.device)
            entry.judged(found, "right before timing, wrong after it: ")

    # -- failures

    @contextmanager
    def guard(self, entry: Entry, step: str, limit_s: float) -> Iterator[None]:
        """Announces a step to the parent, which holds the clock, and turns what a provider raises into its own row."""
        self.emit({"type": "begin", "index": entry.index, "name": entry.name, "step": step, "limit_s": limit_s})
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
        rows = [self.row(entry) for entry in self.entries]
        timed = {(row.role, row.curve): row for row in rows if row.ms is not None}
        copy = timed.get((CONTROL, "copy"))
        base = rows[self.baseline] if self.baseline is not None else None
        for row in rows:
            if row.gbps and copy and copy.gbps:
                row.roofline = row.gbps / copy.gbps
            if row.ms and base and base.ms and (row.role == PROVIDER or row.provider == "repeat"):
                row.speedup = base.ms / row.ms
        return rows

    def row(self, entry: Entry) -> Row:
        row = Row(
            case=self.case,
            provider=entry.name,
            params=format_params(entry.params),
            role=entry.role,
            session=self.session,
            status=entry.status or Status.OK,
            reason=entry.reason,
            build_ms=entry.build_ms,
            host_ms=entry.host_ms,
            timer=self.timer.name,
            cache=self.settings.cache,
            device=self.device.name,
            started_at=self.started_at,
            case_hash=case_hash(self.operator, self.case),
            source_hash=entry.provider.source_hash if entry.provider else "",
            **self.numbers(entry),
            **summary(entry.readings),
        )
        if entry.role == PROVIDER and row.status in (Status.OK, Status.CHECKED, Status.WRONG):
            row.max_ulp, row.max_rel_err = entry.accuracy.max_ulp, entry.accuracy.max_rel_err
        return row

    def numbers(self, entry: Entry) -> dict[str, Any]:
        """Times and speeds. The median is that of the rounds' medians; p20, p80 and min are over all samples."""
        if not entry.rounds:
            return {}
        samples = sorted(sample for samples in entry.rounds for sample in samples)
        round_ms = tuple(median(samples) for samples in entry.rounds)
        ms, ms_p20, ms_p80 = median(round_ms), *_p20_p80(samples)
        moves = 0 if entry.name == "empty" and entry.role == CONTROL else self.operator.bytes(self.case)
        moved = entry.provider.moved_bytes(self.case) if entry.provider and entry.provider.moved_bytes else None
        return {
            "ms": ms,
            "ms_p20": ms_p20,
            "ms_p80": ms_p80,
            "ms_min": samples[0],
            "round_ms": round_ms,
            "samples": len(samples),
            "gbps": gbps(moves, ms),
            "gbps_p20": gbps(moves, ms_p80),
            "gbps_p80": gbps(moves, ms_p20),
            "moved_gbps": None if moved is None else gbps(moved, ms),
        }


def gbps(count: int, ms: float) -> float:
    """Bytes and ms as GB/s (1e9 bytes per second)."""
    return count / ms * 1e-6


def _p20_p80(samples: list[float]) -> tuple[float, float]:
    if len(samples) == 1:
        return samples[0], samples[0]
    cuts = quantiles(samples, n=5, method="inclusive")
    return cuts[0], cuts[3]


def describe(error: BaseException) -> str:
    """An exception in one line, with the place in the provider's code it came from."""
    place = Path(error_location(error, ""))
    return f"{type(error).__name__}: {_first_line(error)}" + (f" at {place.name}" if place.name else "")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else "(no message)"


def case_hash(operator: Operator, case: Case) -> str:
    """Tells two definitions of the same case apart: the operator's source with its bytes, inputs and tolerance."""
    file = inspect.getsourcefile(operator.reference)
    source = Path(file).read_text() if file and Path(file).exists() else ""
    return digest([digest(source), case.to_json(), operator.bytes(case), operator.tolerance(case)])
