"""Records what a script would measure: the points and lines of its plots, and what it makes of a time.

A line is a call of the script's function below `perf_report`. It is made twice while it is recorded, and do_bench returns a
made-up time without running the closure: first `TIME_MS`, then `SCALE` times as much. What the script makes of the two says
whether it reports a time or a rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from kbench.sources.scripts.bench_call import BenchCall
from kbench.sources.scripts.closures import dtype_of_largest
from kbench.sources.scripts.reported import SCALE, ReportedQuantity, classify, numbers

TIME_MS = 1e-4
"""The first made-up time. It is short, so that a rate is a large number, which rounding to whole GB/s does not change much."""

MADE_UP_CALLS = 8
"""A line that calls do_bench more often than this gets real times from then on: it may wait for a long enough time."""

MOST_LOOSE = 20
"""A script that calls do_bench so often before its first plot is measured as a program."""


class NoPlotSoFar(BaseException):
    """Ends a script that calls do_bench again and again, but draws no plot. Not an Exception: the script must not catch it."""


TimePlainly = Callable[[BenchCall], Sequence[float]]
"""Takes the samples of a call as Triton would, in ms."""


class ScriptSwitches(Protocol):
    """The settings of the process that a script may change: the current stream, grad mode, the default dtype and others."""

    def read(self) -> dict[str, Any]:
        """The present values by name."""

    def write(self, values: Mapping[str, Any]) -> None: ...


def _again(values: Sequence[Any]) -> list[Any]:
    """The values that are equal to one before them."""
    return [value for place, value in enumerate(values) if any(same(value, before) for before in values[:place])]


def same(a: Any, b: Any) -> bool:
    """Whether two arguments of a script are one object, or equal objects of one type."""
    return a is b or (type(a) is type(b) and bool(a == b))


@dataclass(frozen=True)
class RecordedLine:
    """A line of a plot at one point.

    arguments  what the function was given, without the line itself
    line       the value of the line's argument
    calls      how often it calls do_bench
    reports    what each of its numbers is, by name
    first      its numbers for TIME_MS
    dtype      the dtype of the largest tensor that its closures hold; None if they hold none
    """

    arguments: dict[str, Any]
    line: Any
    calls: int
    reports: dict[str, ReportedQuantity]
    first: dict[str, float]
    dtype: torch.dtype | None = None


@dataclass
class RecordedPlot:
    """A plot: a `triton.testing.Benchmark` and a function below `perf_report`, with the lines in the order of the script.
    `switches` are those that the script had set before it ran the plot. `last` is what the function returned for the last line
    that did not fail."""

    benchmark: Any
    function: Callable[..., Any]
    switches: Mapping[str, Any] = field(default_factory=dict)
    lines: list[RecordedLine] = field(default_factory=list)
    last: Any = math.nan


class Recorder:
    """Answers the calls of a script that is being recorded. `plots` are in the order of the script. `loose` are the calls of
    do_bench outside of all plots, which get real times: a script may choose its sizes by them. `declared` are the benchmarks
    that the script gives to perf_report, whether it runs them or not. Make it before the script runs: `before` holds the
    switches as they were then."""

    def __init__(self, time_plainly: TimePlainly, switches: ScriptSwitches) -> None:
        self.plots: list[RecordedPlot] = []
        self.loose: list[BenchCall] = []
        self.declared: list[Any] = []
        self.before = switches.read()
        self._time_plainly, self._switches = time_plainly, switches
        self._made_up_ms: float | None = None
        self._calls = 0
        self._dtype: torch.dtype | None = None

    def samples_ms(self, call: BenchCall) -> Sequence[float]:
        self._calls += 1
        if self._made_up_ms is None:
            self.loose.append(call)
            if len(self.loose) > MOST_LOOSE and not self.plots:
                raise NoPlotSoFar
            return self._time_plainly(call)
        self._dtype = self._dtype or dtype_of_largest(call.fn)
        return [self._made_up_ms] if self._calls <= MADE_UP_CALLS else self._time_plainly(call)

    def declares(self, benchmarks: Sequence[Any]) -> None:
        self.declared.extend(benchmarks)

    def empty(self) -> Sequence[str]:
        """For each declared benchmark without points or without lines: which of its arguments is empty."""
        return [
            f"{argument} of the plot {benchmark.plot_name or '(without a name)'} is empty"
            for benchmark in self.declared
            for argument in ("x_vals", "line_vals")
            if not len(getattr(benchmark, argument))
        ]

    def repeated(self) -> Sequence[str]:
        """For each declared benchmark with equal points or equal lines: which of its arguments has them."""
        return [
            f"{argument} of the plot {benchmark.plot_name or '(without a name)'} has {again[0]!r} more than once"
            for benchmark in self.declared
            for argument in ("x_vals", "line_vals")
            if (again := _again(list(getattr(benchmark, argument))))
        ]

    def line(self, benchmark: Any, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        if self._made_up_ms is not None:  # a line that draws another plot
            return function(**arguments)
        switches = self._switches.read()
        plot = next((each for each in self.plots if each.benchmark is benchmark and each.function is function), None)
        if plot is None:
            set_by_script = {name: value for name, value in switches.items() if value != self.before[name]}
            plot = RecordedPlot(benchmark, function, set_by_script)
            self.plots.append(plot)
        given = {name: value for name, value in arguments.items() if name != benchmark.line_arg}
        self._dtype = None
        try:
            first, calls = self._call(function, arguments, TIME_MS)
            second, _ = self._call(function, arguments, SCALE * TIME_MS)
        except Exception:  # noqa: BLE001  it becomes the reason of a row, where the line is built once more
            plot.lines.append(RecordedLine(given, arguments[benchmark.line_arg], 0, {}, {}))
            return plot.last  # in the form that the script expects: its own loop may read a dict
        finally:
            self._switches.write(switches)
        plot.last = first
        reports = {
            name: classify(value, later[name], TIME_MS)
            for later in [numbers(second)]
            for name, value in numbers(first).items()
            if name in later
        }
        plot.lines.append(
            RecordedLine(given, arguments[benchmark.line_arg], calls, reports, numbers(first), self._dtype)
        )
        return first

    def _call(self, function: Callable[..., Any], arguments: dict[str, Any], time_ms: float) -> tuple[Any, int]:
        """What a function returns for a made-up time, and how often it called do_bench."""
        self._made_up_ms, self._calls = time_ms, 0
        try:
            return function(**arguments), self._calls
        finally:
            self._made_up_ms = None
