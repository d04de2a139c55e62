"""The Python API: the commands as functions. They take paths, mappings, `frames`, and Python functions, which are measured
`in_process`. `views` are what a notebook displays.

Each function imports what it needs, so that a plug-in's `import kbench` stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.errors import ConfigError, UsageError
from kbench.results.cells import MARGIN, parse_share
from kbench.text import terminal
from kbench.text.suggest import unknown
from kbench.text.words import split_words

if TYPE_CHECKING:
    import pandas as pd

    from kbench.api.frames import ResultsSource
    from kbench.api.views import ComparisonView, Pictures
    from kbench.config.load import Config
    from kbench.execute.executor import Executor
    from kbench.execute.existing_results import ResumeMode

Functions = Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]]

IN_A_FILE = "put the functions into a file, and name it in plugins"


def run(
    config: str | Path | Mapping[str, Any],
    providers: Functions = (),
    *,
    out: str | Path = "results",
    sessions: int | None = None,
    sets: str | Sequence[str] = (),
    only: str | Sequence[str] = (),
    profile: str | None = None,
    plugins: str | Path | Sequence[str | Path] = (),
    shapes: str | Path | None = None,
    continuing: ResumeMode | None = None,
    devices: str | None = None,
    scheduler: str | None = None,
    spread: bool = False,
) -> pd.DataFrame:
    """Measure a config and return its rows, controls included, in the types of `load`. The CSV and the environment file are
    written to `out`.

    `config` is a file, the name of a built-in config, a problem of another benchmark, or a mapping with the content of a
    config file. The results of a mapping are named after its operator. `providers` are more functions to measure, as a list or
    `{name: function}`. Each takes the operator's inputs and returns a new output. With them, kbench measures in the process of
    the caller, without isolation. Functions in a file (`plugins=["mine.py"]`) are measured in a worker, like all others.

    `shapes` is a CSV with the shapes to measure instead of those of the sweep, and how often each occurs (column `weight`).
    `sessions` is the number of fresh processes that repeat the sweep. `continuing="resume"` measures the missing cases of an
    interrupted run, `"append"` adds sessions to a finished run. `devices` (`"all"`, or numbers and UUIDs separated by commas)
    measures on several devices of this host at once. `scheduler` measures on the workers of a dask cluster. `spread` measures
    the sessions of a case on different devices.

    Raises ConfigError for a config or a function that cannot be used, ResultsError when the results cannot be written or
    continued, Busy when another run has the results, WorkerLost when no worker can be started, KeyboardInterrupt when
    interrupted and ExecutionError when nothing is left to measure on (what was measured is in the CSV). A provider that fails
    is a row, not an exception.
    """
    from kbench.config.load import load_config
    from kbench.execute.prepare import prepare, start_executor
    from kbench.execute.run import execute

    if continuing not in (None, "resume", "append"):
        raise UsageError(f"continuing: {unknown('value', continuing, ('resume', 'append'))}")
    functions = _by_name(providers)
    if functions and isinstance(config, Mapping):
        config = {"providers": list(functions), **config}
    loaded = load_config(
        config,
        sets=_several(sets),
        only=_several(only),
        profile=profile,
        plugins=_several(plugins),
        shapes=None if shapes is None else Path(shapes),
        sessions=sessions,
    )
    if functions:
        loaded, executor = _in_this_process(loaded, functions)
    else:
        executor = start_executor(loaded, devices=devices, scheduler=scheduler, spread=spread)
    with executor:
        plan = prepare(loaded, executor)
        several = plan.measure.sessions > 1 or continuing == "append"
        if functions and (devices or scheduler or several):
            raise UsageError(f"devices, scheduler and several sessions need processes of their own: {IN_A_FILE}")
        outcome = execute(executor, plan, Path(out) / f"{plan.path.stem}.csv", continuing=continuing)
    if outcome.interrupted:
        raise KeyboardInterrupt(f"interrupted; the rows measured so far are in {outcome.csv}")
    return load(outcome.csv)


def load(path: str | Path) -> pd.DataFrame:
    """The rows of a results CSV, or of the only one in a folder, controls included. The index is the line of the file.

    Numbers are float64 with NaN for what is not known, axes are Int64, float64, bool or text, `session` is int64, other whole
    numbers are Int64, `deterministic` is boolean, and `round_ms` has tuples of floats. `flags` is text, several between
    semicolons. `attrs["path"]` is the path of the file. Raises ResultsError for a file that is not one.
    """
    from kbench.results.reader import read_results, results_file

    return read_results(results_file(Path(path))).frame()


def compare(
    *sources: ResultsSource | Mapping[str, ResultsSource],
    where: str = "",
    metric: str = "ms",
    margin: float | str = MARGIN,
    vary: str | Sequence[str] = (),
    fail_on: str | Sequence[str] = (),
) -> ComparisonView:
    """Tell two results apart, row by row: the old ones, then the new ones.

    A source is a path, `LABEL=path`, or a frame that `load` or `run` returned, of which rows may be chosen; a mapping
    `{label: source}` names both. `margin` is the smallest change of interest, as a share: 0.02 or "2%". `fail_on` has the
    verdicts with which `passed` is false. Raises UsageError.
    """
    from kbench.api import frames
    from kbench.api.views import ComparisonView
    from kbench.comparison.compare import compare_results
    from kbench.comparison.model import CompareOptions

    options = CompareOptions(
        where, metric, parse_share("--margin", margin), tuple(_words(vary)), tuple(_words(fail_on))
    )
    return ComparisonView.of(compare_results(*frames.sources_of(sources), options=options))


def plot(
    *sources: ResultsSource | Mapping[str, ResultsSource],
    metric: str = "",
    kind: str = "lines",
    x: str | None = None,
    by: str | Sequence[str] = (),
    margin: float | str = MARGIN,
    where: str = "",
    theme: str = "light",
    formats: str | Sequence[str] = ("png", "svg"),
    out: str | Path | None = None,
) -> Pictures:
    """Draw results, several into one picture. Returns the pictures' paths, as a list that a notebook displays.

    Sources are those of `compare`, options those of `kbench plot`. Pictures go to `out`, else beside the first source: a
    frame's are beside the file it came from, or in the working directory. Raises UsageError.
    """
    from kbench import plotting
    from kbench.api import frames
    from kbench.api.views import Pictures

    choices = plotting.Choices(metric, kind, x, tuple(_words(by)), theme, parse_share("--margin", margin))
    return Pictures(plotting.write_pictures(frames.sources_of(sources), choices, out, _words(formats), where=where))


def report(
    *sources: ResultsSource | Mapping[str, ResultsSource],
    out: str | Path = "report.html",
    baseline: ResultsSource | None = None,
    where: str = "",
    title: str = "",
) -> Path:
    """Write one HTML page on results and return its path.

    Sources are those of `compare`; `baseline` is one that the others are compared with. Raises UsageError, and ResultsError
    where the page cannot be written.
    """
    from kbench.api import frames
    from kbench.reporting import write_report

    files = frames.sources_of([*sources, *([] if baseline is None else [baseline])])
    old = None if baseline is None else files.pop()
    return write_report(files, out, baseline=old, where=where, title=title)


def _by_name(functions: Functions) -> dict[str, Callable[..., Any]]:
    """Functions by the names of their providers. A list gives each function its own name. Raises ConfigError."""
    if callable(functions):
        raise _error(_name(functions), "put the function into a list: [function]")
    if isinstance(functions, Mapping):
        named = list(functions.items())
    else:
        named = [(_name(function), function) for function in functions]
    for name, function in named:
        if not callable(function):
            raise _error(name, f"is not a function (its type is {type(function).__name__})")
    names = [name for name, _ in named]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise _error(repeated, "two functions have this name; pass them as {name: function}")
    return dict(named)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


def _error(provider: str, problem: str) -> ConfigError:
    return ConfigError.at(f"provider {provider}", problem)


def _in_this_process(config: Config, functions: Mapping[str, Callable[..., Any]]) -> tuple[Config, Executor]:
    """A config with these providers too, and an executor that measures it in this process."""
    from kbench.api.in_process import NOTEBOOK, InProcess

    if config.source:
        raise UsageError(f"{config.path}: functions can be measured with a config only; {IN_A_FILE}")
    terminal.note("kbench: the functions are measured in this process: one that crashes or hangs ends it")
    executor = InProcess(config.plugins, config.operator, functions)
    return replace(config, cli_plugins=(*config.cli_plugins, NOTEBOOK)), executor


def _words(words: str | Sequence[str]) -> list[str]:
    """A list of words. Commas inside a word separate words, as on the command line."""
    return [word for text in _several(words) for word in split_words(text)]


def _several(words: str | Path | Sequence[str | Path]) -> list[str]:
    """A list of words. A single word becomes a list of one."""
    return [str(word) for word in ([words] if isinstance(words, (str, Path)) else words)]
