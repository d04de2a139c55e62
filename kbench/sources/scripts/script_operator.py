"""A plot of a script as an operator: it has axes and providers, but no declared tensors and no reference."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kbench.contract.operator import Operator, registered
from kbench.contract.origin import shipped
from kbench.contract.provider import Provider
from kbench.protocol import SourceSweep
from kbench.results.case import Case, Value
from kbench.results.vocabulary import Control
from kbench.sources.scripts.arguments import ArgumentColumn, argument_columns, dtype_of, words_of
from kbench.sources.scripts.bench_call import BenchCall
from kbench.sources.scripts.recording import TIME_MS, RecordedLine, RecordedPlot, TimePlainly, same
from kbench.sources.scripts.reported import QuantityKind, ReportedQuantity, counted, numbers
from kbench.sources.scripts.shielded_files import shielded

CALL = "call"
"""The parameter of a line that calls do_bench more than once: the number of the call, from 1."""


@dataclass(frozen=True)
class BuiltLine:
    """A line of a plot at one point, ready to be measured.

    calls     its calls of do_bench, with the closures
    plain_ms  what do_bench alone reads for each
    counted   what the script counts as the work of the line: `bytes` or `flops`, and how many; None if it does not say
    """

    calls: Sequence[BenchCall]
    plain_ms: Sequence[Sequence[float]]
    counted: tuple[str, float] | None


class _Building:
    """Answers the calls of a line that is being built: every closure is timed as the script asks, and kept."""

    def __init__(self, time_plainly: TimePlainly) -> None:
        self.calls: list[BenchCall] = []
        self.plain_ms: list[Sequence[float]] = []
        self._time_plainly = time_plainly

    def samples_ms(self, call: BenchCall) -> Sequence[float]:
        samples = self._time_plainly(call)
        self.calls.append(call)
        self.plain_ms.append(samples)
        return samples

    def line(self, benchmark: Any, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        return function(**arguments)

    def declares(self, benchmarks: Sequence[Any]) -> None:
        """What a function declares while it runs is no plot of the script."""


@dataclass
class ScriptOperator(Operator):
    """A plot of a script.

    script   its file
    plot     the recording
    columns  the arguments of the script's function as columns
    lines    the value of the line's argument by the name of the provider
    """

    script: Path = field(kw_only=True)
    plot: RecordedPlot = field(kw_only=True)
    columns: Sequence[ArgumentColumn] = field(kw_only=True)
    lines: Mapping[str, Any] = field(kw_only=True)

    def __post_init__(self) -> None:
        """Register it. The columns are made so that nothing can be wrong with their names."""
        registered[self.name] = self

    def build(self, case: Case, provider: str, seed: int, time_plainly: TimePlainly) -> BuiltLine:
        """Call the script's function for a line of a case. All lines draw the same random numbers. Raises whatever the script
        raises."""
        from kbench.sources.scripts.stand_ins import answering  # imports Triton

        arguments = {
            each.argument: each.given(case.dtype if each.kind == "dtype" else case.axes[each.name])
            for each in self.columns
        }
        random.seed(seed)
        torch.manual_seed(seed)
        building = _Building(time_plainly)
        with answering(building), shielded(Path.cwd(), self.script.parent):
            returned = self.plot.function(**arguments, **{self.plot.benchmark.line_arg: self.lines[provider]})
        if len(building.calls) != 1:
            return BuiltLine(building.calls, building.plain_ms, None)
        recorded = self._recorded(arguments, self.lines[provider])
        if recorded:
            return BuiltLine(building.calls, building.plain_ms, self._counted(recorded.first, TIME_MS))
        time_ms = numbers(building.calls[0].returned(building.plain_ms[0])).get("", 0.0)
        return BuiltLine(building.calls, building.plain_ms, self._counted(numbers(returned), time_ms))

    def _recorded(self, arguments: Mapping[str, Any], line: Any) -> RecordedLine | None:
        """The recording of a line. Its made-up time is short, so what the script rounds changes the rate little."""
        for one in self.plot.lines:
            given = one.arguments
            alike = given.keys() == arguments.keys() and all(same(given[name], arguments[name]) for name in given)
            if alike and one.reports and same(one.line, line):
                return one
        return None

    def _counted(self, reported: Mapping[str, float], time_ms: float) -> tuple[str, float] | None:
        benchmark = self.plot.benchmark
        for name, value in reported.items():
            if time_ms and self.report(name).quantity is QuantityKind.RATE:
                found = counted(value, time_ms, name, benchmark.ylabel or "", benchmark.plot_name or "")
                if found:
                    return found
        return None

    def report(self, name: str = "") -> ReportedQuantity:
        """What a number of the script is, if all its lines report the same."""
        found = {line.reports[name] for line in self.plot.lines if name in line.reports}
        return found.pop() if len(found) == 1 else ReportedQuantity(QuantityKind.OTHER)


def register(plot: RecordedPlot, script: Path) -> SourceSweep:
    """Register a plot as an operator. Returns what the script measures for it."""
    columns = argument_columns([line.arguments for line in plot.lines])
    names = words_of(line.line for line in plot.lines)
    labels = dict(zip(map(id, plot.benchmark.line_vals), plot.benchmark.line_names, strict=False))
    lines = {f"{name}-line" if name in set(Control) else name: value for name, value in names.items()}
    points, dtypes = _points(plot, columns)
    operator = ScriptOperator(
        name=_free_name(plot.benchmark.plot_name or script.stem, script),
        axes=tuple(each.name for each in columns if each.kind == "axis"),
        inputs={},
        outputs={},
        reference=_no_reference,
        scalars={each.name: next(iter(each.values)) for each in columns if each.kind == "scalar"},
        choices={each.name: tuple(map(str, each.values)) for each in columns if each.kind == "choice"},
        dtypes=tuple(dtypes),
        script=script,
        plot=plot,
        columns=columns,
        lines=lines,
    )
    calls = {name: max((r.calls for r in plot.lines if _same_line(r.line, lines[name])), default=0) for name in lines}
    for name, value in lines.items():
        operator.providers[name] = Provider(
            name=name,
            operator=operator.name,
            function=plot.function,
            label=str(labels.get(id(value), name)),
            sources=(script,),
            plugin=str(script),
            parameters={CALL: 1} if calls[name] > 1 else {},
        )
    wanted = {name: {CALL: tuple(range(1, count + 1))} if count > 1 else {} for name, count in calls.items()}
    return SourceSweep(operator.name, tuple(points), wanted)


def _same_line(a: Any, b: Any) -> bool:
    return a is b or bool(a == b)


def _points(plot: RecordedPlot, columns: Sequence[ArgumentColumn]) -> tuple[list[dict[str, Value]], list[str]]:
    """The cases of a plot, each once, and the dtypes in them. A case without an argument for its dtype has the dtype of the
    largest tensor of its lines, or torch's default dtype."""
    points: dict[tuple[Any, ...], dict[str, Value]] = {}
    default = dtype_of(torch.get_default_dtype()) or "float32"
    for line in plot.lines:
        point = {
            each.name: _value(each, line.arguments[each.argument])
            for each in columns
            if each.argument in line.arguments
        }
        if len(point) < len(columns):
            continue  # the script called the function with other arguments elsewhere
        key = tuple(point.items())
        seen = points.setdefault(key, point)
        if "dtype" not in seen and line.dtype is not None and (dtype := dtype_of(line.dtype)):
            seen["dtype"] = dtype
    for point in points.values():
        point.setdefault("dtype", default)
    found = list(points.values())
    return found, list(dict.fromkeys(str(point["dtype"]) for point in found))


def _value(column: ArgumentColumn, given: Any) -> Value:
    """The value of a case for an object that the script has given."""
    return next(value for value, known in column.values.items() if known is given or same(known, given))


def _no_reference(*inputs: Any) -> Any:
    raise NotImplementedError("a script has no reference")


def _free_name(plot_name: str, script: Path) -> str:
    """A name for the operator, and so for the results file, that no other operator has."""
    name = re.sub(r"[^\w.+-]+", "-", plot_name).strip("-.+") or script.stem
    taken = {*shipped(), *registered}
    for found in (name, f"{script.stem}-{name}", *(f"{script.stem}-{name}-{number}" for number in range(2, 10_000))):
        if found not in taken:
            return found
    raise ValueError(f"{plot_name}: the script has too many plots of this name")
