"""One call of do_bench by a script: what it asked for, what do_bench returns for a time, and a function that stands in for
do_bench. This module imports neither torch nor Triton."""

from __future__ import annotations

import functools
import inspect
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from kbench.text.exception_text import in_library

NO_SCRIPTS = ("triton", "torch", "kbench")
"""Packages whose calls of do_bench are part of no script: Triton and torch tune kernels, and kbench measures with it."""

RENAMED = {"percentiles": "quantiles"}
REMOVED = ("fast_flush", "device_type")
"""Arguments of do_bench in earlier versions of Triton."""

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
    """The arguments of `triton.testing.do_bench`, or of `do_bench_cudagraph`.

    fn            the closure to time
    place         `bench.py:31`, the line of the call
    timer         `do_bench` or `do_bench_cudagraph`
    warmup_ms     how long the script runs the closure untimed
    rep_ms        how long it takes samples
    grad_to_none  tensors whose gradient is cleared before each call
    """

    fn: Callable[[], Any]
    place: str
    timer: str = "do_bench"
    warmup_ms: float = 25
    rep_ms: float = 100
    grad_to_none: tuple[Any, ...] = ()
    quantiles: Sequence[float] | None = None
    return_mode: str = "mean"

    def __post_init__(self) -> None:
        if self.return_mode not in RETURN_MODES:
            raise ValueError(
                f"do_bench has no return_mode {self.return_mode!r}; the modes are {', '.join(RETURN_MODES)}"
            )

    def clear_gradients(self) -> None:
        for tensor in self.grad_to_none:
            tensor.grad = None

    def returned(self, timing: Timing) -> Any:
        """What do_bench returns: one number, a list of quantiles, or all samples. The mean and the median are the time of the
        row, so that a script shows the number that kbench shows."""
        if self.quantiles is not None:
            values = [timing.ms if share == 0.5 else quantile(timing.samples_ms, share) for share in self.quantiles]
            return values[0] if len(values) == 1 else values
        if self.return_mode == "all":
            return list(timing.samples_ms)
        return {"min": min(timing.samples_ms), "max": max(timing.samples_ms)}.get(self.return_mode, timing.ms)


def quantile(samples: Sequence[float], share: float) -> float:
    """A quantile of samples, with linear interpolation, as do_bench computes it."""
    if not 0 <= share <= 1:
        raise ValueError("quantiles must be between 0 and 1")
    ordered = sorted(samples)
    point = share * (len(ordered) - 1)
    lower = int(point)
    upper = min(lower + 1, len(ordered) - 1)
    return ordered[lower] + (ordered[upper] - ordered[lower]) * (point - lower)


def stand_in(original: Callable[..., Any], timer: str, measure: Callable[[BenchCall], Timing]) -> Callable[..., Any]:
    """A function with the signature of `do_bench` or `do_bench_cudagraph`, whose calls `measure` times. Calls by packages that
    are no scripts go to the original."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def replaced(*arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1)
        if caller.f_globals.get("__name__", "").partition(".")[0] in NO_SCRIPTS:
            return original(*arguments, **named)
        named = {RENAMED.get(name, name): value for name, value in named.items() if name not in REMOVED}
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        call = bench_call(timer, place_of(caller), **bound.arguments)
        return call.returned(measure(call))

    return replaced


def bench_call(
    timer: str,
    place: str,
    fn: Callable[[], Any],
    warmup: float = 0,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    **others: Any,
) -> BenchCall:
    """The call of do_bench with these arguments. `others` are arguments of other versions of Triton."""
    return BenchCall(fn, place, timer, warmup, rep, tuple(grad_to_none or ()), quantiles, return_mode)


def place_of(frame: FrameType | None) -> str:
    """`bench.py:31`: the innermost line of the user's own code; that of the call itself if only libraries call."""
    user_frame = frame
    while user_frame is not None and in_library(user_frame.f_code.co_filename):
        user_frame = user_frame.f_back
    caller = user_frame or frame
    return f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}" if caller else ""
