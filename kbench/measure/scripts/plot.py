"""A plot of a script: a `triton.testing.Benchmark` and a function below `perf_report`, whose lines are measured together.

When the script asks for one line at a point, all lines of the point are called. Each stops at its first call of do_bench. Their
closures are timed beside each other, and the lines go on with these times: to their next call, or to their end. The script gets
what the lines return, one after another, so its table, its files and its pictures show the times that kbench shows.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch

from kbench.measure.contender import Contender
from kbench.measure.correctness.definition import Work
from kbench.measure.scripts.closure_group import UNCOUNTED, Closure, ClosureGroup
from kbench.measure.scripts.columns import ArgumentColumn, argument_columns, dtype_of, same, words_of
from kbench.measure.scripts.foreign_timers import Timing
from kbench.measure.scripts.line import Line, Switches, this_thread
from kbench.measure.scripts.session import this_session
from kbench.measure.steps import DeviceLost
from kbench.protocol import DeviceFailed, LineDone, PointBegun, Rows
from kbench.results.case import Case
from kbench.results.row import Row
from kbench.results.vocabulary import CALL, Control, Status

NO_CALL = "the script does not call do_bench for this line in this case, or only in a thread that the line starts"

UNITS_MS = (1e-6, 1e-3, 1.0, 1e3)
"""Nanoseconds, microseconds, milliseconds and seconds in ms."""

RATE = re.compile(
    r"(?<![a-z])(?P<prefix>[kmgt])"
    r"(?:(?P<binary>i?)b(?: ?/ ?s(?:ec)?|ps)|(?P<flops>flop)s?(?: ?/ ?s(?:ec)?)?)"
    r"(?![a-z])(?! ?/)",
    re.IGNORECASE,
)
"""How a label names a rate: GB/s, GiB/s, TBps, TFLOPS. Those of a part, such as TFLOPS/W, are other units."""

IN_BRACKETS = re.compile(r"[(\[]([^)\]]*)[)\]]")
OTHER_UNIT = re.compile(r"%|/ ?s(?:ec)?\b|flop|^[nuµm]?s$", re.IGNORECASE)
"""How a label names a unit that is no rate of bytes or operations: percent, tokens/s, TFLOPS/W, ms."""

ROUNDED = 0.01
"""A rate that is rounded to steps of more than this share of it says nothing."""

DIVIDED = 1e-3
"""A number is a fraction of a time if it differs from it by no more than this share: the script may round it."""

Point = Mapping[str, Any]
"""The arguments of the script's function, without that of the line."""


class Plot:
    """A plot of this process. What its lines have returned is kept: a line is measured once at a point.

    lines   the values of `line_vals`, by the names of their providers
    labels  in which a script may name the unit of its numbers
    last    what a line has returned last
    """

    def __init__(self, benchmark: Any, function: Callable[..., Any]) -> None:
        self.session, self.benchmark, self.function = this_session(), benchmark, function
        names = words_of(benchmark.line_vals)
        self.lines = {f"{name}-line" if name in set(Control) else name: value for name, value in names.items()}
        name = re.sub(r"[^\w.+-]+", "-", benchmark.plot_name or "").strip("-.+") or self.session.program
        self.name = self.session.free_name(name, f"{self.session.program}-{name}")
        self.labels = benchmark.ylabel or "", benchmark.plot_name or ""
        self.last: Any = math.nan
        self._columns: dict[tuple[str, ...], list[ArgumentColumn]] = {}
        self._returned: dict[tuple[str, str], Any] = {}
        self._requested: set[tuple[str, str]] = set()

    def line(self, arguments: Mapping[str, Any]) -> Any:
        """What the script gets for a line at a point."""
        value = arguments[self.benchmark.line_arg]
        point = {name: argument for name, argument in arguments.items() if name != self.benchmark.line_arg}
        line = next((name for name, other in self.lines.items() if same(other, value)), None)
        if line is None:  # the script's own call of its function
            return self.function(**arguments)
        axes = {column.name: column.value(point[column.argument]) for column in self._columns_of(point)}
        label = ", ".join(f"{name}={axis}" for name, axis in axes.items())
        if (label, line) in self._requested:
            _note(f"{self.name}: {label} comes more than once; kbench measures it once")
        self._requested.add((label, line))
        if (label, line) not in self._returned:
            lost = {}
            for name in self.lines:
                done = self.session.done
                message = done.get((self.name, label, name)) or done.get((self.name, "", name))
                if message and message.status is None:
                    self._returned[label, name] = message.returned
                elif message:
                    lost[name] = message
            if (label, line) not in self._returned:
                self._measure(label, axes, point, lost)
        return self._returned[label, line]

    def _columns_of(self, point: Point) -> list[ArgumentColumn]:
        """The columns of the arguments, which all points with these arguments share."""
        key = tuple(point)
        if key not in self._columns:
            names = self.benchmark.x_names
            fixed = {name: value for name, value in point.items() if name not in names}
            values = [x if isinstance(x, (list, tuple)) else [x] * len(names) for x in self.benchmark.x_vals]
            points = [{**point, **dict(zip(names, x, strict=False)), **fixed} for x in values]
            self._columns[key] = argument_columns([point, *points])
        return self._columns[key]

    def _measure(self, label: str, axes: dict[str, Any], point: Point, lost: Mapping[str, LineDone]) -> None:
        session, point_run = self.session, PointRun(self, label, axes, point)
        session.plot_runs = True
        try:
            rows = point_run.run(lost)
        except DeviceLost as error:
            assert error.contender.status
            session.emit(DeviceFailed(error.contender.status, error.contender.reason))
            os._exit(1)  # every further call on the device would fail
        finally:
            session.plot_runs = False
            session.device.release_case()
        session.emit(Rows(tuple(rows)))
        for name, value in point_run.returned.items():
            self._returned[label, name] = value
            session.emit(LineDone(self.name, label, name, _plain(value)))


class PointRun:
    """Measures the lines of a plot at one point. `returned` is what the script gets for each."""

    def __init__(self, plot: Plot, label: str, axes: dict[str, Any], point: Point) -> None:
        self.plot, self.session, self.label = plot, plot.session, label
        self.returned: dict[str, Any] = {}
        self.groups: list[ClosureGroup] = []
        self._has_dtype = "dtype" in axes
        dtype = axes.get("dtype") or dtype_of(torch.get_default_dtype()) or "float32"
        self.case = Case(plot.name, {name: value for name, value in axes.items() if name != "dtype"}, str(dtype))
        switches = Switches()
        self.lines = [
            Line(index, name, partial(plot.function, **point, **{plot.benchmark.line_arg: value}), switches)
            for index, (name, value) in enumerate(plot.lines.items())
        ]

    def run(self, lost: Mapping[str, LineDone]) -> list[Row]:
        """Measure them, without those that an earlier process has lost. Returns all rows. Raises DeviceLost."""
        self._announce()
        running = self.lines
        while running:
            group = ClosureGroup(self.session, self.session.settings, self.case)
            self.groups.append(group)
            if len(self.groups) == 1:
                running = [line for line in running if not self._was_lost(group, line, lost)]
            running = [line for line in running if self._goes_on(group, line)]
            if len(self.groups) == 1:
                self._find_dtype(group)
            group.time_all()
        self._count_work()
        self._number_calls()
        first, *others = [group.rows() for group in self.groups]
        return first + [row for rows in others for row in rows if row.of_provider]

    def _announce(self) -> None:
        rows = [
            Row(
                self.case,
                line.name,
                status=Status.CRASHED,
                reason="the process has ended",
                timer=self.session.settings.timer,
                cache=self.session.settings.cache,
                device=self.session.device.name,
            )
            for line in self.lines
        ]
        self.session.emit(PointBegun(self.label, tuple(rows)))

    def _find_dtype(self, group: ClosureGroup) -> None:
        """A case without an argument for its dtype has that of the largest tensor of its lines."""
        dtypes = [dtype for closure in group.closures if (dtype := dtype_of(closure.dtype))]
        if dtypes and not self._has_dtype:
            self.case = group.case = replace(self.case, dtype=dtypes[0])
            self._announce()

    def _was_lost(self, group: ClosureGroup, line: Line, lost: Mapping[str, LineDone]) -> bool:
        if line.name not in lost:
            return False
        contender = Contender(line.index, line.name, {CALL: 1})
        contender.end(lost[line.name].status or Status.CRASHED, lost[line.name].reason)
        group.ended.append(contender)
        self.returned[line.name] = _without_numbers(self.plot.last)
        return True

    def _goes_on(self, group: ClosureGroup, line: Line) -> bool:
        """Let a line go on to its next closure, and prepare that. Returns whether there is one."""
        number, limit_s = len(self.groups), group.settings.build_timeout_s
        last, line.closure = line.closure, None
        closure = Closure(line.index, line.name, {CALL: number}, run=line.send)
        with group.steps.step(closure, "build", limit_s):
            if last is None:
                call = line.begin(limit_s)
            else:
                last.let_go()
                call = line.send(last.answer, limit_s)
            if call is not None:
                line.closure, closure.call = closure, call
                group.prepare(closure)
        if line.closure is not None:
            return True
        if not closure.running:
            self.returned[line.name] = _without_numbers(self.plot.last)
            if last is None or last.running:  # otherwise its row has the reason
                group.ended.append(closure)
            return False
        self.returned[line.name] = self.plot.last = line.returned
        if last is None:
            closure.end(Status.UNSUPPORTED, NO_CALL)
            group.ended.append(closure)
        return False

    def _count_work(self) -> None:
        """What a line with one closure returns is the time of a call or a part, or follows from its work."""
        labels, (group, *others) = self.plot.labels, self.groups
        several = {contender.index for other in others for contender in other.contenders}
        reported = {
            closure: (self.returned[closure.name], closure.answer.ms)
            for closure in group.closures
            if isinstance(closure.answer, Timing) and closure.index not in several
        }
        counts = [
            divided_by(value, ms, _repetitions(closure.kernels or ()), *labels)
            for closure, (value, ms) in reported.items()
        ]
        for closure, (value, ms) in reported.items():
            units = divided_by(value, ms, counts, *labels)
            group.divide(closure, units)
            closure.work = counted_work(value, ms / units, *labels)

    def _number_calls(self) -> None:
        """Only a line with several closures has the parameter `call`."""
        contenders = [contender for group in self.groups for contender in group.contenders]
        counts = Counter(contender.index for contender in contenders)
        for contender in contenders:
            if counts[contender.index] == 1:
                contender.params = {}


@cache
def _note(line: str) -> None:
    """Say something once."""
    print(line, file=sys.stderr)


_plot_of = cache(Plot)
"""The plot of a benchmark and a function."""


def measured_line(function: Callable[..., Any], benchmarks: Sequence[Any], arguments: Mapping[str, Any]) -> Any:
    """What the script gets for a call below perf_report. Benchmarks may differ in fixed arguments alone."""
    fitting = [benchmark for benchmark in benchmarks if {benchmark.line_arg, *benchmark.x_names} <= arguments.keys()]
    if not fitting or this_thread.line:  # a line may call another plot
        return function(**arguments)
    benchmark = max(fitting, key=partial(_fixed_arguments, arguments))
    return _plot_of(benchmark, function).line(arguments)


def _fixed_arguments(arguments: Mapping[str, Any], benchmark: Any) -> bool:
    """Whether a call has all fixed arguments of a benchmark."""
    return all(name in arguments and arguments[name] is value for name, value in dict(benchmark.args or {}).items())


def _without_numbers(value: Any) -> Any:
    """The same form with nothing in it, for a line that has failed. The script's loop may read a dict."""
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


def counted_work(returned: Any, time_ms: float, *labels: str) -> Work:
    """What a script counts as the work of a call, given its time. Nothing if it reports no rate, or if no label
    (the key of a dict, that of the y axis, the name of the plot) names its unit."""
    quantiles = []
    if isinstance(returned, (tuple, list)):
        quantiles = [x for x in returned if isinstance(x, float)]
    for name, value in _numbers(returned):
        # by chance, 3072 bytes take 19.2 us and give 0.16 GB/s, but seldom in all quantiles
        if value <= 0 or _is_time(value, time_ms) or all(map(_is_rounded, (value, *quantiles))):
            continue
        if rate := _rate_of((name, *labels)):
            base = 1024 if rate["binary"] else 1000
            unit = float(base ** ("kmgt".index(rate["prefix"].lower()) + 1))
            count = round(value * unit * time_ms * 1e-3)
            return Work(0, count) if rate["flops"] else Work(count, None)
    return UNCOUNTED


def _rate_of(labels: Sequence[str]) -> re.Match[str] | None:
    """The rate that the first label with a unit names, in brackets at first; None if it is no rate."""
    for label in labels:
        for words in (*IN_BRACKETS.findall(label), label):
            if "%" not in label and (rate := RATE.search(words)):
                return rate
            if OTHER_UNIT.search(words):
                return None
    return None


def divided_by(reported: Any, time_ms: float, counts: Collection[int], *labels: str) -> int:
    """By which of these numbers the script has divided the time that it reports; 1 if it has not."""
    for name, value in _numbers(reported):
        if value <= 0 or _rate_of((name, *labels)) or _is_time(value, time_ms):
            continue
        for count, unit_ms in itertools.product(counts, UNITS_MS):
            if math.isclose(count * value * unit_ms, time_ms, rel_tol=DIVIDED):
                return count
    return 1


def _repetitions(kernels: Sequence[str]) -> list[int]:
    """How many times a call runs the same kernels: `[2, 3, 6]` for six times one kernel."""
    length = len(kernels)
    counts = [count for count in range(2, length + 1) if length % count == 0]
    return [count for count in counts if tuple(kernels) == tuple(kernels[: length // count]) * count]


def _numbers(returned: Any) -> Iterator[tuple[str, float]]:
    """The numbers that a function returned, with their names in a dict. Of a tuple, the first."""
    if not isinstance(returned, Mapping):
        returned = {"": returned[0] if isinstance(returned, (tuple, list)) and returned else returned}
    for name, value in returned.items():
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            continue
        if math.isfinite(number):
            yield str(name), number


def _is_time(value: float, time_ms: float) -> bool:
    return any(math.isclose(value * unit_ms, time_ms, rel_tol=1e-6) for unit_ms in UNITS_MS)


def _is_rounded(value: float) -> bool:
    return any(value == round(value, digits) and 10**-digits > 2 * ROUNDED * value for digits in range(5))
