"""Measures a call of a timer where a script or a program makes it.

A line of a plot stops in the call, and goes on when it has been measured beside the others (see plot.py). Any other call is
measured alone: there are no other providers, no baseline and no controls.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from kbench.measure.scripts import foreign_timers
from kbench.measure.scripts.closure_group import Closure, ClosureGroup, time_plainly
from kbench.measure.scripts.closures import label_of, place_of_closure
from kbench.measure.scripts.columns import dtype_of, word
from kbench.measure.scripts.foreign_timers import BenchCall, Timing, place_of
from kbench.measure.scripts.line import measuring_a_closure, this_thread
from kbench.measure.scripts.session import Session, this_session
from kbench.measure.steps import DeviceLost
from kbench.protocol import Rows
from kbench.results.case import Case
from kbench.results.vocabulary import CALL_ORDER

ROUNDS = 5
"""The samples of a call outside of all plots are taken in so many rounds, of which `ms` is the median of the medians."""

LIMIT_S = 3600.0
"""How long a call outside of all plots may take, and each of its rounds. It may tune a kernel."""

_alone = threading.Lock()
"""Threads wait for each other: calls at the same time would slow each other down."""


def measure(call: BenchCall) -> Timing:
    """The time of a call of a timer. In a closure, or in a thread of a line, it is what the timer alone reads."""
    session, line = this_session(), this_thread.line
    if this_thread.measures or (session.plot_runs and line is None):
        return Timing.of(time_plainly(session.device, call))
    if line:
        return line.stop(call)
    with _alone, measuring_a_closure():
        return _measured_alone(session, call)


def _measured_alone(session: Session, call: BenchCall) -> Timing:
    """The time of a call outside of all plots. Raises what the call raises; its row has the reason."""
    place, label = place_of_closure(call.fn) or call.place, label_of(call.fn)
    named = word(call.provider, {}) if call.provider else ""
    name = named or (f"{place} {word(label, {})}" if label else place)
    closure = Closure(0, name, {}, run=lambda work, limit_s: work())
    closure.call = call
    settings = {
        "rounds": ROUNDS,
        "warmup_ms": call.warmup_ms,
        "rep_ms": max(call.rep_ms, 1.0) / ROUNDS,
        "build_timeout_s": LIMIT_S,
        "timeout_s": LIMIT_S,
    }
    words = {column: word(text, {}) for column, text in call.words.items()}
    same_calls = (name, *words.values())
    case = Case(session.calls_name, {**words, CALL_ORDER: session.orders[same_calls] + 1}, "float32")
    group = ClosureGroup(session, session.settings.model_copy(update=settings), case, alone=True)
    try:
        with group.steps.step(closure, "build", LIMIT_S):
            group.prepare(closure)
        group.case = replace(case, dtype=dtype_of(closure.dtype or torch.get_default_dtype()) or "float32")
        group.time_all()
    except DeviceLost:
        if closure.error is None:
            raise
    answer = closure.answer  # a row without a time drops the samples
    session.orders[same_calls] += 1
    session.emit(Rows(tuple(group.rows())))
    if isinstance(answer, BaseException):
        raise answer
    return answer


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
    return foreign_timers.do_bench(measure, place, fn, warmup, rep, grad_to_none, quantiles, return_mode)
