"""Stands in for `do_bench`, `do_bench_cudagraph` and `perf_report` of `triton.testing` while code of a script runs.

A script may have imported the functions by name, so it keeps a stand-in for as long as it lives. A stand-in therefore asks at
each call who answers: the innermost `answering` block, or else Triton itself. Calls by Triton and by torch, whose autotuners
use do_bench too, are always answered by Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from triton import testing

from kbench.sources.scripts.bench_call import Timed, stand_in


class Answers(Timed, Protocol):
    """What becomes of the calls of a script."""

    def line(self, benchmark: Any, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """What a function below `perf_report` returns for a line of a plot at one point of the x axis."""

    def declares(self, benchmarks: Sequence[Any]) -> None:
        """The script calls `perf_report` with these benchmarks."""


_answers: list[Answers] = []


def current_answers() -> Answers | None:
    """Who answers now; None for Triton itself."""
    return _answers[-1] if _answers else None


_perf_report = testing.perf_report
do_bench = stand_in(testing.do_bench, "do_bench", current_answers)
do_bench_cudagraph = stand_in(testing.do_bench_cudagraph, "do_bench_cudagraph", current_answers)


@contextmanager
def answering(answers: Answers) -> Iterator[None]:
    """Inside, `answers` receives the calls of the stand-ins."""
    names = {"do_bench": do_bench, "do_bench_cudagraph": do_bench_cudagraph, "perf_report": perf_report}
    before = {name: getattr(testing, name) for name in names}
    _answers.append(answers)
    try:
        for name, function in names.items():
            setattr(testing, name, function)
        yield
    finally:
        for name, function in before.items():
            setattr(testing, name, function)
        _answers.pop()


def perf_report(benchmarks: Any) -> Callable[[Callable[..., Any]], Any]:
    """Has the signature of `triton.testing.perf_report`."""
    if not _answers:
        return _perf_report(benchmarks)  # type: ignore[no-any-return]
    return lambda function: Mark(function, benchmarks)


class Mark(testing.Mark):  # type: ignore[misc]
    """What `perf_report` makes of a function. It draws nothing, prints nothing and writes nothing: the times are made up."""

    def __init__(self, function: Callable[..., Any], benchmarks: Any) -> None:
        super().__init__(function, benchmarks)
        self._function = function
        self.fn = self._line
        if _answers:
            _answers[-1].declares(self._marks)

    @property
    def _marks(self) -> Sequence[Any]:
        return self.benchmarks if isinstance(self.benchmarks, (list, tuple)) else [self.benchmarks]

    def _line(self, *positional: Any, **arguments: Any) -> Any:
        """A call by the script itself, outside of `run`."""
        if positional or not _answers:
            return self._function(*positional, **arguments)
        fits = [each for each in self._marks if {each.line_arg, *each.x_names} <= arguments.keys()]
        same = [each for each in fits if _fits_exactly(each, arguments)]
        return self._answered((same or fits)[0], arguments) if fits else self._function(**arguments)

    def _answered(self, benchmark: Any, arguments: dict[str, Any]) -> Any:
        if not _answers:
            return self._function(**arguments)
        return _answers[-1].line(benchmark, self._function, arguments)

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str = "",
        return_df: bool = False,
        **more: Any,
    ) -> Any:
        """Call the function for every point and line, as Triton does. Returns the same frames."""
        single = not isinstance(self.benchmarks, (list, tuple))
        frames = [self._frame(one, more) for one in self._marks]
        return (frames[0] if single else frames) if return_df else None

    def _frame(self, benchmark: Any, more: dict[str, Any]) -> Any:
        import pandas as pd

        names, rows = list(benchmark.x_names), []
        more = {name: value for name, value in more.items() if name not in ("diff_col", "save_precision")}
        for x in benchmark.x_vals:
            values = list(x) if isinstance(x, (list, tuple)) else [x] * len(names)
            if len(values) != len(names):
                raise ValueError(f"x_vals: expected {len(names)} values, for {', '.join(names)}; got {x}")
            point = dict(zip(names, values, strict=True)) | dict(benchmark.args or {}) | more
            row = values
            for line in benchmark.line_vals:
                found = self._answered(benchmark, {benchmark.line_arg: line, **point})
                row = [*row, found[0] if isinstance(found, (tuple, list)) and found else found]
            rows.append(row)
        return pd.DataFrame(rows, columns=[*names, *(f"{name} ({benchmark.ylabel})" for name in benchmark.line_names)])


def _fits_exactly(benchmark: Any, arguments: dict[str, Any]) -> bool:
    """Whether the fixed arguments of a benchmark are those of a call. Several benchmarks may differ in them alone."""
    return all(name in arguments and arguments[name] is value for name, value in dict(benchmark.args or {}).items())
