"""The timers of other packages, such as `triton.testing.do_bench`, whose calls kbench measures in a script.

`TIMERS` lists them. Each has an answer: what kbench measures for a call, and what the call returns. This module imports neither
torch nor Triton: every process of a program imports it at its start.
"""

from __future__ import annotations

import functools
import inspect
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Literal

from kbench.text.exception_text import in_library

NO_SCRIPTS = ("triton", "torch", "kbench", "flashinfer", "tilelang", "helion.autotuner")
"""Packages whose own calls of a timer are part of no script: they tune kernels, and kbench measures with it."""

RETURN_MODES = ("min", "max", "mean", "median", "all")

TIMER_WORDS = ("env", "label", "sub_label", "description")
"""What a `torch.utils.benchmark.Timer` says of its statement. The last that is given names the provider."""

Method = Literal["events", "graph", "loop", "kernels"]
"""How a timer times on its own:

events   single calls, each after a flush of the cache
graph    calls in a CUDA graph, which find their data in the cache
loop     calls one after another by the clock of the host, which find their data in the cache
kernels  the kernels of a call alone, after a flush of the cache: by a profiler, or in a graph of one call
"""


@dataclass(frozen=True)
class Timing:
    """How long a closure takes: `ms` is the time of its row, `samples_ms` are those of all rounds."""

    ms: float
    samples_ms: Sequence[float]

    @classmethod
    def of(cls, samples_ms: Sequence[float]) -> Timing:
        return cls(statistics.median(samples_ms), samples_ms)

    @property
    def centred_ms(self) -> list[float]:
        """The samples, moved so that their median is the time of the row: a script takes the median itself."""
        distance_ms = self.ms - statistics.median(self.samples_ms)
        return [sample_ms + distance_ms for sample_ms in self.samples_ms]


@dataclass(frozen=True)
class BenchCall:
    """A call of a timer.

    fn            the closure to time
    place         `bench.py:31`, the line of the call
    warmup_ms     how long the script runs the closure untimed
    rep_ms        how long it takes samples
    grad_to_none  tensors whose gradient is cleared before each call
    method        how the script's timer times
    provider      what the script calls it; empty if it has no name
    words         what else the script says of the call, by the names of columns
    """

    fn: Callable[[], Any]
    place: str
    warmup_ms: float = 25
    rep_ms: float = 100
    grad_to_none: tuple[Any, ...] = ()
    method: Method = "events"
    provider: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    def clear_gradients(self) -> None:
        for tensor in self.grad_to_none:
            tensor.grad = None


Measuring = Callable[[BenchCall], Timing]


def do_bench(
    measure: Measuring,
    place: str,
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Any = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    *,
    method: Method = "events",
    provider: str = "",
    **others: Any,
) -> Any:
    """`triton.testing.do_bench` and what is like it. `others` are arguments of other versions."""
    if return_mode not in RETURN_MODES:
        raise ValueError(f"do_bench has no return_mode {return_mode!r}; the modes are {', '.join(RETURN_MODES)}")
    timing = measure(BenchCall(fn, place, warmup, rep, tuple(grad_to_none or ()), method, provider))
    if quantiles is not None:
        return _quantiles(quantiles, timing)
    samples_ms = list(timing.samples_ms)
    # the mean and the median are the time of the row, so that a script shows the number that kbench shows
    return {"all": samples_ms, "min": min(samples_ms), "max": max(samples_ms)}.get(return_mode, timing.ms)


def _quantiles(shares: Sequence[float], timing: Timing) -> Any:
    """Quantiles as do_bench computes them; one number for one. That of 0.5 is the time of the row."""
    import numpy as np  # a program may have no other use for it

    quantiles_ms = np.quantile(timing.samples_ms, shares).tolist()
    values = [timing.ms if share == 0.5 else ms for share, ms in zip(shares, quantiles_ms, strict=True)]
    return values[0] if len(values) == 1 else values


def _torch_timer(
    measure: Measuring, place: str, self: Any, number: int = 0, min_run_time: float = 0.0, **others: Any
) -> Any:
    """A method of `torch.utils.benchmark.Timer`; only `timeit` has a `number`."""
    from torch.utils.benchmark import Measurement
    from torch.utils.benchmark.utils.common import set_torch_threads

    if not hasattr(self._timer, "inner"):  # a statement in C++
        return NotImplemented
    task = self._task_spec
    words = {name: getattr(task, name) for name in TIMER_WORDS if getattr(task, name)}
    provider = words.popitem()[1] if words else ""
    names = dict(self._timer.inner.__globals__)
    exec(task.setup, names)
    fn, rep_ms = _statement(task.stmt, names), max(100.0, min_run_time * 1e3)
    with set_torch_threads(task.num_threads):
        timing = measure(BenchCall(fn, place, rep_ms=rep_ms, method="loop", provider=provider, words=words))
    if number:
        return Measurement(number, [number * timing.ms * 1e-3], task)
    return Measurement(1, [ms * 1e-3 for ms in timing.centred_ms], task)


def _statement(source: str, names: dict[str, Any]) -> Callable[[], Any]:
    """A function that runs a statement or evaluates an expression. What it assigns lasts, as in timeit."""
    try:
        code = compile(source, "<statement>", "eval")
    except SyntaxError:
        code = compile(source, "<statement>", "exec")
    return FunctionType(code, names, "<lambda>")


def _inductor(
    measure: Measuring,
    place: str,
    self: Any,
    fn: Any = None,
    fn_args: Any = None,
    fn_kwargs: Any = None,
    _callable: Any = None,
    return_mode: str = "",
    **others: Any,
) -> Any:
    """A method of Inductor's benchmarker. Its default, the shortest time, is not that of the row."""
    call = partial(fn, *(fn_args or ()), **(fn_kwargs or {})) if fn else _callable
    return do_bench(measure, place, call, return_mode="all" if return_mode == "all" else "mean")


def _flashinfer(
    measure: Measuring,
    place: str,
    fn: Callable[..., Any],
    dry_run_time_ms: float = 25,
    repeat_time_ms: float = 100,
    enable_cupti: bool = False,
    use_cuda_graph: bool = False,
    input_args: Sequence[Any] = (),
    input_kwargs: Mapping[str, Any] | None = None,
    cold_l2_cache: bool = True,
    **others: Any,
) -> list[float]:
    """`flashinfer.testing.bench_gpu_time` and its kin. Its graph rotates over copies of the inputs."""
    inputs = input_args or input_kwargs
    method: Method = "events"
    if enable_cupti or use_cuda_graph:
        method = "kernels" if enable_cupti or (inputs and cold_l2_cache) else "graph"
    call = partial(fn, *input_args, **(input_kwargs or {})) if inputs else fn
    return measure(BenchCall(call, place, dry_run_time_ms, repeat_time_ms, method=method)).centred_ms


def _tilelang(measure: Measuring, place: str, fn: Callable[[], Any], backend: str = "event", **arguments: Any) -> Any:
    methods: dict[str, Method] = {"cupti": "kernels", "cudagraph": "graph"}
    return do_bench(measure, place, fn, method=methods.get(backend, "events"), **arguments)


def _tilelang_profiler(
    measure: Measuring,
    place: str,
    self: Any,
    func: Callable[..., Any] | None = None,
    input_tensors: Sequence[Any] | None = None,
    dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    **arguments: Any,
) -> Any:
    """It draws the inputs of a kernel unless it is given some."""
    if input_tensors is None:
        sizes = {"dynamic_symbolic_constraints": dynamic_symbolic_constraints} if dynamic_symbolic_constraints else {}
        input_tensors = self._get_inputs(**sizes)
    fn = partial(self.adapter if func is None else func, *input_tensors)
    return _tilelang(measure, place, fn, **arguments)


def _helion(
    measure: Measuring, place: str, fn: Callable[[], Any], default_cudagraph: bool = False, **arguments: Any
) -> Any:
    return do_bench(measure, place, fn, method="kernels" if default_cudagraph else "events", **arguments)


def _helion_interleaved(
    measure: Measuring, place: str, fns: Sequence[Callable[[], Any]], default_cudagraph: bool = False, **others: Any
) -> list[float]:
    """The functions do the same work. Those of one name are numbered."""
    from kbench.measure.scripts.closures import label_of  # which imports torch

    labels = [label_of(fn) for fn in fns]
    providers = [
        f"{place} {label} {number}" if labels.count(label) > 1 else "" for number, label in enumerate(labels, 1)
    ]
    return [
        _helion(measure, place, fn, default_cudagraph, provider=provider)
        for fn, provider in zip(fns, providers, strict=True)
    ]


Answer = Callable[..., Any]
"""Called in place of a timer: with what measures, the place of the call, and the arguments of the timer by their names."""

TIMERS: Mapping[str, Mapping[str, Answer]] = {
    "triton.testing": {
        "do_bench": do_bench,
        "do_bench_cudagraph": partial(do_bench, warmup=0, method="graph"),
        "do_bench_proton": partial(do_bench, method="kernels"),
        "do_bench_cudagraph_proton": partial(do_bench, warmup=0, method="kernels"),
    },
    "torch.utils.benchmark.utils.timer": {
        "Timer.timeit": _torch_timer,
        "Timer.blocked_autorange": _torch_timer,
        "Timer.adaptive_autorange": _torch_timer,
    },
    "torch._inductor.utils": {"do_bench_using_profiling": partial(do_bench, method="kernels")},
    "torch._inductor.runtime.benchmarking": {
        "Benchmarker.benchmark": _inductor,
        "Benchmarker.benchmark_cpu": _inductor,
        "TritonBenchmarker.benchmark_gpu": _inductor,
        "InductorBenchmarker.benchmark_gpu": _inductor,
    },
    "flashinfer.testing.utils": {
        "bench_gpu_time": _flashinfer,
        "bench_gpu_time_with_cuda_event": _flashinfer,
        "bench_gpu_time_with_cudagraph": partial(_flashinfer, use_cuda_graph=True),
        "bench_gpu_time_with_cupti": partial(_flashinfer, enable_cupti=True),
    },
    "tilelang.profiler.bench": {"do_bench": _tilelang},
    "tilelang.profiler": {"Profiler.do_bench": _tilelang_profiler},
    "helion.autotuner.benchmarking": {
        "do_bench": _helion,
        "do_bench_generic": do_bench,
        "interleaved_bench": _helion_interleaved,
        "interleaved_bench_generic": _helion_interleaved,
    },
}
"""The timers that kbench replaces in a script as soon as it imports their module: by module and name, what answers for them."""


def replace_timers(module: Any, measure: Measuring) -> None:
    """Have `measure` time the calls of the timers of a module."""
    for path, answer in TIMERS[module.__name__].items():
        *classes, name = path.split(".")
        owner = functools.reduce(lambda outer, inner: getattr(outer, inner, None), classes, module)
        if hasattr(owner, name):
            setattr(owner, name, _stand_in(getattr(owner, name), answer, measure))


def _stand_in(original: Callable[..., Any], answer: Answer, measure: Measuring) -> Any:
    """A function with the signature of a timer that gives this answer, except to NO_SCRIPTS."""
    signature = inspect.signature(original)
    prefixes = tuple(f"{package}." for package in NO_SCRIPTS)

    @functools.wraps(original)
    def replaced(*arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1)
        if f"{caller.f_globals.get('__name__')}.".startswith(prefixes):
            return original(*arguments, **named)
        if "percentiles" in named and "percentiles" not in signature.parameters:  # of earlier versions
            named["quantiles"] = named.pop("percentiles")
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise TypeError(f"{original.__name__}: {error}") from None
        bound.apply_defaults()
        returned = answer(measure, place_of(caller), **bound.arguments)
        return original(*arguments, **named) if returned is NotImplemented else returned

    return replaced


def place_of(frame: FrameType | None) -> str:
    """`bench.py:31`: the innermost line of the user's own code, or that of the call itself."""
    user_frame = frame
    while user_frame is not None and in_library(user_frame.f_code.co_filename):
        user_frame = user_frame.f_back
    caller = user_frame or frame
    return f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}" if caller else ""
