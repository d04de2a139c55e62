"""Measures closures where a script or a program calls do_bench, and sends rows if `kbench run` or `kbench exec` runs it.

The lines of a plot are measured beside each other (see plot.py). Any other call is measured alone: there are no other
providers, no baseline and no controls.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch

from kbench.measure.contender import Contender
from kbench.measure.scripts.arguments import dtype_of, word
from kbench.measure.scripts.bench import Bench
from kbench.measure.scripts.bench_call import BenchCall, Timing, place_of
from kbench.measure.scripts.closures import label_of, place_of_closure
from kbench.measure.scripts.line import current_line
from kbench.measure.scripts.stage import Closure, Stage, time_plainly
from kbench.measure.steps import DeviceLost
from kbench.protocol import LineDone, Rows
from kbench.results.case import Case
from kbench.results.vocabulary import CALL_ORDER

ROUNDS = 5
"""The samples of a call outside of all plots are taken in so many rounds, of which `ms` is the median of the medians."""

LIMIT_S = 3600.0
"""How long a call outside of all plots may take, and each of its rounds. It may tune a kernel."""


class InPlace(Bench):
    """Measures the calls of this process, one after another.

    done       the lines that an earlier process of the same script has measured
    plot_runs  lines of a plot are being measured
    was_asked  there was something to measure
    """

    def __init__(
        self, settings: Mapping[str, Any] | None = None, session: int | None = None, done: Sequence[LineDone] = ()
    ) -> None:
        super().__init__(settings, session)
        self.done = {(line.plot, line.point, line.line): line for line in done}
        self.plot_runs = self.was_asked = False
        self._alone = threading.RLock()  # one call at a time, from whichever thread
        self._orders: Counter[str] = Counter()
        self._timing = False

    @cached_property
    def _calls_name(self) -> str:
        """The name of the results of calls outside of all plots."""
        return self.free_name(self.program, f"{self.program}-calls", f"{self.program}-other-calls")

    def timing(self, call: BenchCall) -> Timing:
        """The time of a call outside of all plots, measured in kbench's own way: with the device kept busy until the host is
        ahead. Raises what the call raises; its row has the reason. Threads wait for each other: calls at the same time would
        slow each other down."""
        self.was_asked = True
        if self.plot_runs:  # a thread that a line has started
            return Timing.of(time_plainly(self.device, call))
        with self._alone:
            if self._timing:  # a closure that tunes itself
                return Timing.of(time_plainly(self.device, call))
            self._timing = True
            try:
                return self._timed_alone(call)
            finally:
                self._timing = False

    def _timed_alone(self, call: BenchCall) -> Timing:
        place, label = place_of_closure(call.fn) or call.place, label_of(call.fn)
        contender = Contender(0, f"{place} {word(label, {})}" if label else place, {})
        closure = Closure(call, contender, lambda work, limit_s: work())
        updates = {
            "warmup_ms": call.warmup_ms,
            "rep_ms": max(call.rep_ms, 1.0) / ROUNDS,
            "rounds": ROUNDS,
            "build_timeout_s": LIMIT_S,
            "timeout_s": LIMIT_S,
        }
        stage = Stage(self, self.settings.model_copy(update=updates))
        order = {CALL_ORDER: self._orders[contender.name] + 1}
        case = Case(self._calls_name, order, "float32")
        try:
            with stage.steps.step(contender, "build", LIMIT_S):
                stage.prepare(closure)
            case = Case(case.operator, order, dtype_of(closure.dtype or torch.get_default_dtype()) or "float32")
            stage.time(case, None)
        except DeviceLost:
            if closure.error is None:
                raise
        if not closure.interpreted:  # a time of Triton's interpreter is no row
            self._orders[contender.name] += 1
            self.emit(Rows(tuple(stage.rows(case, None, alone=True))))
        if closure.error is not None:
            raise closure.error
        if closure.timing is None:
            raise RuntimeError(contender.reason)
        return closure.timing


_in_place: dict[int, InPlace] = {}
_making = threading.Lock()


def in_place() -> InPlace:
    """That of this process, made when it is first needed: it starts the device. A fork of a process has one of its own, which
    describes the machine once more: its rows are another session."""
    process = os.getpid()
    if process not in _in_place:
        with _making:  # one for all threads
            if process not in _in_place:
                _in_place[process] = InPlace()
    return _in_place[process]


def use(bench: InPlace) -> None:
    """Have this process measure with an object that was made for it."""
    _in_place[os.getpid()] = bench


def measure(call: BenchCall) -> Timing:
    """The time of a call of do_bench, wherever it is made."""
    line = current_line()
    if line is None:
        return in_place().timing(call)
    return Timing.of(time_plainly(in_place().device, call)) if line.busy else line.stop(call)


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
    or `kbench exec` measures, kbench measures the function as one of that script. The mean and the median are the median of
    the medians of five rounds.
    """
    place = place_of(sys._getframe(1))
    call = BenchCall(fn, place, "do_bench", warmup, rep, tuple(grad_to_none or ()), quantiles, return_mode)
    return call.returned(measure(call))
