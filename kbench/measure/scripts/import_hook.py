"""Replaces functions of `triton.testing` as soon as a program imports that module. Imports nothing heavy itself."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from kbench.measure.scripts.bench_call import BenchCall, Timing, stand_in
from kbench.measure.scripts.line import current_line

REPLACED = "triton.testing"

declared: list[Any] = []
"""The benchmarks that this process has given to perf_report."""


class _Finder(MetaPathFinder):
    """Finds `triton.testing` where Python would, and gives it a loader that replaces its functions."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != REPLACED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _replace_functions(module)


def _replace_functions(module: Any) -> None:
    """Have the calls of do_bench measured by kbench, and the lines of a plot beside each other. All else of `triton.testing`
    stays: Triton makes the tables, the files and the pictures."""
    original = module.perf_report

    @functools.wraps(original)
    def perf_report(benchmarks: Any) -> Callable[[Callable[..., Any]], Any]:
        declared.extend(benchmarks if isinstance(benchmarks, (list, tuple)) else [benchmarks])
        decorate = original(benchmarks)
        return lambda function: decorate(_measured(function, benchmarks))

    module.perf_report = perf_report
    for name in ("do_bench", "do_bench_cudagraph"):
        setattr(module, name, stand_in(getattr(module, name), name, _measure))


def _measured(function: Callable[..., Any], benchmarks: Any) -> Callable[..., Any]:
    """A function below perf_report that is measured when the script, or Triton, calls it."""

    @functools.wraps(function)
    def line(*positional: Any, **arguments: Any) -> Any:
        from kbench.measure.scripts.plot import measured_line  # imports torch

        if positional or current_line():  # a line may call another plot
            return function(*positional, **arguments)
        return measured_line(function, benchmarks, arguments)

    return line


def _measure(call: BenchCall) -> Timing:
    from kbench.measure.scripts.in_place import measure  # imports torch

    return measure(call)


def replace_do_bench_on_import() -> None:
    sys.meta_path.insert(0, _Finder())
