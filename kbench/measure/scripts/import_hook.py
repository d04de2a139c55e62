"""Replaces timers of other packages, and `perf_report`, when a program imports their module. Imports nothing heavy."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from kbench.measure.scripts.foreign_timers import TIMERS, BenchCall, Timing, replace_timers

declared: list[Any] = []
"""The benchmarks that this process has given to perf_report."""


class _Finder(MetaPathFinder):
    """Finds the modules of TIMERS where Python would. kbench then measures calls of their timers, and the lines of a plot."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in TIMERS:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_replace(module: Any) -> None:
                load(module)
                replace_timers(module, _measure)
                if module.__name__ == "triton.testing":  # which still makes the tables
                    module.perf_report = _measuring(module.perf_report)

            setattr(spec.loader, "exec_module", load_and_replace)  # noqa: B010  a method of this loader alone
        return spec


def _measuring(perf_report: Callable[[Any], Callable[..., Any]]) -> Callable[[Any], Callable[..., Any]]:
    """`triton.testing.perf_report` for functions whose lines kbench measures."""

    @functools.wraps(perf_report)
    def replaced(benchmarks: Any) -> Callable[..., Any]:
        single = hasattr(benchmarks, "x_vals")
        listed = [benchmarks] if single else list(benchmarks)
        for benchmark in listed:  # of a generator, kbench and Triton both need all values
            benchmark.x_vals, benchmark.line_vals = list(benchmark.x_vals), list(benchmark.line_vals)
        declared.extend(listed)
        decorate = perf_report(benchmarks if single else listed)
        return lambda function: decorate(_measured(function, listed))

    return replaced


def _measured(function: Callable[..., Any], benchmarks: Sequence[Any]) -> Callable[..., Any]:
    """A function below perf_report that is measured when the script, or Triton, calls it."""

    @functools.wraps(function)
    def line(*positional: Any, **arguments: Any) -> Any:
        from kbench.measure.scripts.plot import measured_line  # imports torch

        return function(*positional, **arguments) if positional else measured_line(function, benchmarks, arguments)

    return line


def _measure(call: BenchCall) -> Timing:
    from kbench.measure.scripts.in_place import measure  # imports torch

    return measure(call)


def replace_timers_on_import() -> None:
    sys.meta_path.insert(0, _Finder())
