"""A plot of a script: a `triton.testing.Benchmark` and a function below `perf_report`, whose lines are measured together.

When the script asks for one line at a point, all lines of the point are called. Each stops at its first call of do_bench. Their
closures are timed beside each other, and the lines go on with these times: to their next call, or to their end. The script gets
what the lines return, one after another, so its table, its files and its pictures show the times that kbench shows.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from kbench.measure.contender import Contender
from kbench.measure.scripts.arguments import ArgumentColumn, argument_columns, dtype_of, words_of
from kbench.measure.scripts.in_place import InPlace, in_place
from kbench.measure.scripts.line import Line
from kbench.measure.scripts.reported import counted_work
from kbench.measure.scripts.stage import Closure, Stage
from kbench.measure.scripts.switches import ScriptSwitches, random_states
from kbench.measure.steps import DeviceLost
from kbench.protocol import DeviceFailed, LineDone, Noted, PointBegun, Rows
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import Control, Status

CALL = "call"
"""The parameter of a line that calls do_bench more than once: the number of the call, from 1."""

NO_CALL = "the script does not call do_bench for this line in this case"


class Plot:
    """A plot of this process. What its lines have returned is kept: a line is measured once at a point."""

    def __init__(self, bench: InPlace, benchmark: Any, function: Callable[..., Any]) -> None:
        self.bench, self.benchmark, self.function = bench, benchmark, function
        names = words_of(benchmark.line_vals)
        self.lines = {f"{name}-line" if name in set(Control) else name: value for name, value in names.items()}
        self.name = bench.free_name(*_names(benchmark.plot_name or "", bench.program))
        self.labels = benchmark.ylabel or "", benchmark.plot_name or ""
        self.last: Any = math.nan
        self._columns: dict[tuple[str, ...], list[ArgumentColumn]] = {}
        self._returned: dict[tuple[str, str], Any] = {}
        self._requested: set[tuple[str, str]] = set()

    def line(self, arguments: Mapping[str, Any]) -> Any:
        """What the script gets for a line at a point."""
        value = arguments[self.benchmark.line_arg]
        point_arguments = {name: value for name, value in arguments.items() if name != self.benchmark.line_arg}
        line = next((name for name, other in self.lines.items() if other is value or _equal(other, value)), None)
        if line is None:  # the script's own call of its function
            return self.function(**arguments)
        columns = self._columns_of(point_arguments)
        axes = {column.name: column.value(point_arguments[column.argument]) for column in columns}
        point = ", ".join(f"{name}={axis}" for name, axis in axes.items())
        if (point, line) in self._requested:
            self.bench.emit(Noted(f"{self.name}: {point} comes more than once; kbench measures it once"))
        self._requested.add((point, line))
        if (point, line) not in self._returned:
            lost = {}
            for name in self.lines:
                if done := self.bench.done.get((self.name, point, name)):
                    if done.status is None:
                        self._returned[point, name] = done.returned
                    else:
                        lost[name] = done
            if (point, line) not in self._returned:
                self._measure(point, axes, point_arguments, lost)
        return self._returned[point, line]

    def _columns_of(self, arguments: Mapping[str, Any]) -> list[ArgumentColumn]:
        """The columns of the arguments, which all points share."""
        key = tuple(arguments)
        if key not in self._columns:
            fixed = {name: value for name, value in arguments.items() if name not in self.benchmark.x_names}
            self._columns[key] = argument_columns([arguments, *({**arguments, **x, **fixed} for x in self._points())])
        return self._columns[key]

    def _points(self) -> list[dict[str, Any]]:
        names = self.benchmark.x_names
        values = [x if isinstance(x, (list, tuple)) else [x] * len(names) for x in self.benchmark.x_vals]
        return [dict(zip(names, x, strict=False)) for x in values]

    def _measure(
        self, point: str, axes: dict[str, Any], arguments: Mapping[str, Any], lost: Mapping[str, LineDone]
    ) -> None:
        measured = PointRun(self, point, axes, arguments, lost)
        self.bench.plot_runs = self.bench.was_asked = True
        try:
            rows = measured.run()
        except DeviceLost as error:
            assert error.contender.status
            self.bench.emit(DeviceFailed(error.contender.status, error.contender.reason))
            os._exit(1)  # every further call on the device would fail
        finally:
            self.bench.plot_runs = False
            self.bench.device.release_case()
        self.bench.emit(Rows(tuple(rows)))
        for name, value in measured.returned.items():
            self._returned[point, name] = value
            if name not in lost:
                self.bench.emit(LineDone(self.name, point, name, _plain(value)))


class PointRun:
    """Measures the lines of a plot at one point."""

    def __init__(
        self, plot: Plot, point: str, axes: dict[str, Any], arguments: Mapping[str, Any], lost: Mapping[str, LineDone]
    ) -> None:
        self.plot, self.bench, self.point, self.lost = plot, plot.bench, point, lost
        self.returned: dict[str, Any] = {}
        self._has_dtype = "dtype" in axes
        dtype = axes.get("dtype") or dtype_of(torch.get_default_dtype()) or "float32"
        self.case = Case(plot.name, {name: value for name, value in axes.items() if name != "dtype"}, str(dtype))
        switches = ScriptSwitches()
        self.names = list(plot.lines)
        self.lines = [
            Line(partial(plot.function, **arguments, **{plot.benchmark.line_arg: value}), switches)
            for value in plot.lines.values()
        ]
        self.stages: list[Stage] = []
        self._closures: dict[int, Closure] = {}  # where each line has stopped

    def run(self) -> list[Row]:
        """Measure them. Returns the rows of all their closures. Raises DeviceLost."""
        self._announce()
        restore = random_states()
        running = list(range(len(self.lines)))
        try:
            while running:
                stage = Stage(self.bench, self.bench.settings)
                self.stages.append(stage)
                running = [index for index in running if self._go_on(stage, index, restore)]
                if len(self.stages) == 1:
                    self._find_dtype(stage)
                stage.time(self.case, self._baseline(stage))
        finally:
            for line in self.lines:
                if not line.ended:
                    line.abandon()
        self._number_calls()
        return [row for stage in self.stages for row in self._rows(stage)]

    def _announce(self) -> None:
        self.bench.emit(PointBegun(self.case, self.point, tuple(self.names)))

    def _find_dtype(self, stage: Stage) -> None:
        """A case without an argument for its dtype has that of the largest tensor of its lines."""
        dtypes = [dtype for closure in stage.closures if (dtype := dtype_of(closure.dtype))]
        if dtypes and not self._has_dtype:
            self.case = replace(self.case, dtype=dtypes[0])
            self._announce()

    def _go_on(self, stage: Stage, index: int, restore: Callable[[], None]) -> bool:
        """Let a line go on to its next closure, and prepare that. Returns whether it has not ended."""
        name, line, limit_s = self.names[index], self.lines[index], stage.settings.build_timeout_s
        number, last = len(self.stages), self._closures.pop(index, None)
        contender = Contender(index, name, {CALL: number})
        if lost := self.lost.get(name):
            line.ended = True
            contender.end(lost.status or Status.CRASHED, lost.reason)
            stage.ended.append(contender)
            self.returned[name] = _without_numbers(self.plot.last)
            return False
        with stage.steps.step(contender, "build", limit_s):
            if last is None:
                restore()
                call = line.begin(limit_s)
            else:
                answer = last.timing or last.error or RuntimeError(last.contender.reason)
                last.contender.let_go()
                call = line.go_on(answer, limit_s)
            if call is not None:
                self._closures[index] = closure = Closure(call, contender, line.run)
                stage.prepare(closure)
        if index in self._closures:
            return True
        if contender.running:
            self.returned[name] = self.plot.last = line.returned
            if last is None:
                contender.end(Status.UNSUPPORTED, NO_CALL)
                stage.ended.append(contender)
            elif last.timing and number == 2:
                last.work = counted_work(line.returned, last.timing.ms, *self.plot.labels)
            return False
        self.returned[name] = _without_numbers(self.plot.last)
        if last is None or last.contender.running:  # otherwise its row has the reason
            stage.ended.append(contender)
        return False

    def _baseline(self, stage: Stage) -> Closure | None:
        return next((closure for closure in stage.closures if closure.contender.index == 0), None)

    def _number_calls(self) -> None:
        """Only a line with several closures has the parameter `call`."""
        contenders = [
            contender
            for stage in self.stages
            for contender in (*(closure.contender for closure in stage.closures), *stage.ended)
        ]
        for contender in contenders:
            if [other.index for other in contenders].count(contender.index) == 1:
                contender.params = {}

    def _rows(self, stage: Stage) -> list[Row]:
        if not stage.closures and not stage.ended:
            return []
        rows = stage.rows(self.case, self._baseline(stage))
        return rows if stage is self.stages[0] else [row for row in rows if row.role != "control"]


_plots: dict[tuple[int, int], Plot] = {}


def measured_line(function: Callable[..., Any], benchmarks: Any, arguments: Mapping[str, Any]) -> Any:
    """What the script gets for a call of a function below perf_report."""
    candidates = list(benchmarks) if isinstance(benchmarks, (list, tuple)) else [benchmarks]
    fitting = [benchmark for benchmark in candidates if {benchmark.line_arg, *benchmark.x_names} <= arguments.keys()]
    exact = [benchmark for benchmark in fitting if _fits_exactly(benchmark, arguments)]
    if not fitting:
        return function(**arguments)
    benchmark = (exact or fitting)[0]
    key = id(benchmark), id(function)
    if key not in _plots:
        _plots[key] = Plot(in_place(), benchmark, function)
    return _plots[key].line(arguments)


def _fits_exactly(benchmark: Any, arguments: Mapping[str, Any]) -> bool:
    """Whether the fixed arguments of a benchmark are those of a call. Several benchmarks may differ in them alone."""
    return all(name in arguments and arguments[name] is value for name, value in dict(benchmark.args or {}).items())


def _equal(a: Any, b: Any) -> bool:
    try:
        return type(a) is type(b) and bool(a == b)
    except (ValueError, RuntimeError):  # arrays
        return False


def _names(plot_name: str, script: str) -> Iterator[str]:
    """Names for the results of a plot, the best first."""
    name = re.sub(r"[^\w.+-]+", "-", plot_name).strip("-.+") or script
    yield from (name, f"{script}-{name}")
    yield from (f"{script}-{name}-{number}" for number in range(2, 10_000))


def _without_numbers(value: Any) -> Any:
    """The same form with nothing in it: what the script gets for a line that has failed. Its own loop may read a dict."""
    if isinstance(value, Mapping):
        return dict.fromkeys(value, math.nan)
    return [math.nan] * len(value) if isinstance(value, (list, tuple)) else math.nan


def _plain(value: Any) -> Any:
    """What a line returned, as a message can hold it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        return math.nan
