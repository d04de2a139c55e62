"""The timers of other packages, such as `triton.testing.do_bench`, whose calls kbench measures in a script.

`TIMERS` lists them. A call of one becomes a `BenchCall`: what it asks for, and what it returns for a time. This module imports
neither torch nor Triton: every process of a program imports it at its start.
"""

from __future__ import annotations

import functools
import inspect
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import FrameType
from typing import Any

from kbench.text.exception_text import in_library

NO_SCRIPTS = ("triton", "torch", "kbench")
"""Packages whose own calls of a timer are part of no script: Triton and torch tune kernels, and kbench measures with it."""

RETURN_MODES = ("min", "max", "mean", "median", "all")


@dataclass(frozen=True)
class Timing:
    """How long a closure takes: `ms` is the time of its row, and `samples_ms` are all samples of its rounds."""

    ms: float
    samples_ms: Sequence[float]

    @classmethod
    def of(cls, samples_ms: Sequence[float]) -> Timing:
        return cls(statistics.median(samples_ms), samples_ms)


@dataclass(frozen=True)
class BenchCall:
    """A call of a timer.

    fn            the closure to time
    place         `bench.py:31`, the line of the call
    warmup_ms     how long the script runs the closure untimed
    rep_ms        how long it takes samples
    grad_to_none  tensors whose gradient is cleared before each call
    graph         whether the script replays the closure in a CUDA graph, with a warm cache
    returned      what the call returns for a time
    """

    fn: Callable[[], Any]
    place: str
    warmup_ms: float = 25
    rep_ms: float = 100
    grad_to_none: tuple[Any, ...] = ()
    graph: bool = False
    returned: Callable[[Timing], Any] = attrgetter("ms")

    def clear_gradients(self) -> None:
        for tensor in self.grad_to_none:
            tensor.grad = None


def do_bench_call(
    place: str,
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    *,
    graph: bool = False,
    **others: Any,
) -> BenchCall:
    """A call of `triton.testing.do_bench`. `others` are arguments of other versions of Triton."""
    if return_mode not in RETURN_MODES:
        raise ValueError(f"do_bench has no return_mode {return_mode!r}; the modes are {', '.join(RETURN_MODES)}")
    returned = partial(_statistic, return_mode) if quantiles is None else partial(_quantiles, tuple(quantiles))
    return BenchCall(fn, place, warmup, rep, tuple(grad_to_none or ()), graph, returned)


def _statistic(mode: str, timing: Timing) -> Any:
    """The mean and the median are the time of the row, so that a script shows the number that kbench shows."""
    if mode == "all":
        return list(timing.samples_ms)
    return {"min": min(timing.samples_ms), "max": max(timing.samples_ms)}.get(mode, timing.ms)


def _quantiles(shares: Sequence[float], timing: Timing) -> Any:
    """Quantiles with linear interpolation, as do_bench computes them; one number if one is asked for. That of 0.5 is the time
    of the row."""
    values = []
    ordered = sorted(timing.samples_ms)
    for share in shares:
        if not 0 <= share <= 1:
            raise ValueError("quantiles must be between 0 and 1")
        point = share * (len(ordered) - 1)
        lower = int(point)
        upper = min(lower + 1, len(ordered) - 1)
        value = ordered[lower] + (ordered[upper] - ordered[lower]) * (point - lower)
        values.append(timing.ms if share == 0.5 else value)
    return values[0] if len(values) == 1 else values


@dataclass(frozen=True)
class ForeignTimer:
    """A function of another package that times a closure. `call` makes a BenchCall of the place of a call and its arguments."""

    module: str
    name: str
    call: Callable[..., BenchCall]


TIMERS = (
    ForeignTimer("triton.testing", "do_bench", do_bench_call),
    ForeignTimer("triton.testing", "do_bench_cudagraph", partial(do_bench_call, warmup=0, graph=True)),
)
"""The timers that kbench replaces in a script, as soon as it imports their module."""


def stand_in(timer: ForeignTimer, original: Callable[..., Any], measure: Callable[[BenchCall], Timing]) -> Any:
    """A function with the signature of a timer, whose calls `measure` times. Calls by packages that are no scripts go to the
    original."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def replaced(*arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").partition(".")[0] in NO_SCRIPTS:
            return original(*arguments, **named)
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        call = timer.call(place_of(caller), **bound.arguments)
        return call.returned(measure(call))

    return replaced


def place_of(frame: FrameType | None) -> str:
    """`bench.py:31`: the innermost line of the user's own code; that of the call itself if only libraries call."""
    user_frame = frame
    while user_frame is not None and in_library(user_frame.f_code.co_filename):
        user_frame = user_frame.f_back
    caller = user_frame or frame
    return f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}" if caller else ""
