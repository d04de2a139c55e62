"""Measures a closure where a program calls do_bench, and writes a row if `kbench exec` runs the program.

There is one closure at a time, so there are no other providers, no baseline and no controls. The rounds of a call follow each
other.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import torch

from kbench.measure.catalog import describe_machine
from kbench.measure.contender import Contender
from kbench.measure.machine.device import Device, out_of_memory
from kbench.measure.machine.interpreter import interpreter_probe
from kbench.measure.machine.telemetry import find_telemetry
from kbench.measure.rows import CaseContext, make_rows
from kbench.measure.scripts.observation import observe
from kbench.measure.scripts.script_run import time_plainly
from kbench.measure.session.measurements import SessionMeasurements
from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import measure_launch_ms
from kbench.protocol import Catalog, DeviceInfo, Rows, encode
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.stamps import digest, now
from kbench.results.timers import default_cache
from kbench.results.vocabulary import CALL_ORDER, Noticed, Role, Status
from kbench.sources.scripts import PROGRAM, ROWS_FILE
from kbench.sources.scripts.arguments import dtype_of, word
from kbench.sources.scripts.bench_call import BenchCall, place_of
from kbench.sources.scripts.closures import dtype_of_largest, held_tensors, label_of, place_of_closure
from kbench.text.exception_text import describe_exception

ROUNDS = 5
"""The samples of a call are taken in so many rounds, of which `ms` is the median of the medians."""


class InPlace:
    """Measures the calls of this process, one after another."""

    def __init__(self) -> None:
        self.device = Device()
        self.telemetry = find_telemetry(self.device)
        self.timer = BenchTimer(self.device, default_cache(self.device.type))
        self._orders: Counter[str] = Counter()
        self._begun = False
        self._alone = threading.RLock()  # not a Lock: a closure may call do_bench itself

    @cached_property
    def _measured(self) -> SessionMeasurements:
        return SessionMeasurements(self.telemetry)

    def samples_ms(self, call: BenchCall) -> list[float]:
        """The samples of a call, in ms, in kbench's own way: with the device kept busy until the host is ahead. Raises what the
        call raises; its row has the reason. Threads wait for each other: calls at the same time would slow each other down."""
        place, label = place_of_closure(call.fn) or call.place, label_of(call.fn)
        contender = Contender(0, f"{place} {word(label, {})}" if label else place, {})
        started_at, path = now(), os.environ.get(ROWS_FILE)
        with self._alone:
            try:
                return self._measure(call, contender, started_at, path)
            except Exception as error:
                if path:
                    self._write(Path(path), self._failed_row(call, contender, started_at, error))
                raise

    def _measure(self, call: BenchCall, contender: Contender, started_at: str, path: str | None) -> list[float]:
        interpreted = interpreter_probe()
        call.clear_gradients()
        start = time.perf_counter_ns()
        call.fn()
        self.device.synchronize()
        contender.build_ms = (time.perf_counter_ns() - start) / 1e6
        if interpreted():
            if path:
                self._write(Path(path), None)
            return [contender.build_ms]  # a time of Triton's interpreter is no row
        contender.launch_ms = measure_launch_ms(call.fn, self.device)
        before = call.clear_gradients if call.grad_to_none else None
        sample = self.timer.ready([call.fn], contender.launch_ms, before)
        for number in range(ROUNDS):
            readings = self.telemetry.read()
            contender.rounds.append(sample(0.0 if number else call.warmup_ms, max(call.rep_ms, 1.0) / ROUNDS).ms)
            contender.readings += [readings, self.telemetry.read()]
        if path:
            self._write(Path(path), self._row(call, contender, started_at))
        return [ms for samples in contender.rounds for ms in samples]

    def _case(self, call: BenchCall, contender: Contender) -> Case:
        dtype = dtype_of(dtype_of_largest(call.fn) or torch.get_default_dtype()) or "float32"
        return Case(os.environ.get(PROGRAM, "program"), {CALL_ORDER: self._orders[contender.name] + 1}, dtype)

    def _how(self, case: Case, started_at: str) -> dict[str, Any]:
        """The columns that say how a call was measured."""
        return {
            "session": 0,
            "timer": self.timer.name,
            "cache": self.timer.cache,
            "device": self.device.name,
            "started_at": started_at,
            "case_hash": digest(str(case.key)),
        }

    def _failed_row(self, call: BenchCall, contender: Contender, started_at: str, error: Exception) -> Row:
        case = self._case(call, contender)
        self._orders[contender.name] += 1
        status = Status.OOM if out_of_memory(error) else Status.ERROR
        reason = describe_exception(error)
        return Row(case, contender.name, status=status, reason=reason, **self._how(case, started_at))

    def _row(self, call: BenchCall, contender: Contender, started_at: str) -> Row:
        case = self._case(call, contender)
        call.clear_gradients()
        seen = observe(call.fn, held_tensors(call.fn), self.device)
        noticed = [*seen.noticed, *([Noticed.GRAPH] if call.timer == "do_bench_cudagraph" else [])]
        context = CaseContext(
            case=case,
            call_bytes=0,
            flops=None,
            shorter=True,
            baseline=None,
            cache_bytes=None,
            ceiling_gbps=None,
            ceiling_tflops=None,
            peak_gbps=None,
            accelerated=self.device.accelerated,
            cold=self.timer.cache == "cold",
            prefill_ms=self.timer.prefill_ms,
            common=self._how(case, started_at),
            unchecked=True,
        )
        empty = Contender(
            1, "empty", {}, Role.CONTROL, rounds=self._measured.empty(self.timer, self.timer.cache).rounds
        )
        [row, _] = make_rows(context, [contender, empty])
        row.gbps = row.gbps_p20 = row.gbps_p80 = row.sol = None
        row.noticed = ";".join(noticed)
        row.script_ms = median(time_plainly(self.device, call))
        self._orders[contender.name] += 1
        return row

    def _write(self, path: Path, row: Row | None) -> None:
        """Append a message of this process, with a row or, if Triton's interpreter ran the call, without one. A first message
        describes the machine."""
        messages: list[Catalog | Rows] = [Rows((row,) if row else ())]
        if not self._begun:
            self._begun = True
            device = DeviceInfo(self.device.type, self.device.name, self.device.index, self.device.uuid)
            machine = describe_machine(self.device, self.telemetry)
            messages.insert(0, Catalog(device, (), {}, (), machine))
        with path.open("ab", buffering=0) as file:
            file.write(b"".join(encode(message, str(os.getpid())) for message in messages))


_in_place: dict[int, InPlace] = {}


def in_place() -> InPlace:
    """That of this process, made when it is first needed: it starts the device. A fork of a process has one of its own, which
    describes the machine once more: its rows are another session."""
    process = os.getpid()
    if process not in _in_place:
        _in_place.setdefault(process, InPlace())  # one for all threads
    return _in_place[process]


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """Time a function as `triton.testing.do_bench` does, in ms, with the same arguments and the same returned value.

    kbench keeps the device busy until the host is ahead of it, so that the time is that of the kernels, however slowly the host
    launches them. The cache is flushed before each call. Runs on a host, too, with a warm cache. In a script that `kbench run`
    or `kbench exec` measures, kbench measures the function as one of that script.
    """
    place = place_of(sys._getframe(1))
    call = BenchCall(fn, place, "do_bench", warmup, rep, tuple(grad_to_none or ()), quantiles, return_mode)
    stand_ins = sys.modules.get("kbench.sources.scripts.stand_ins")  # there if `kbench run` runs the script
    answers = stand_ins.current_answers() if stand_ins else None
    return call.returned((answers or in_place()).samples_ms(call))
