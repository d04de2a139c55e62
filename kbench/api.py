"""The Python API: the commands as functions. They take paths, mappings, frames and Python functions.

Each function imports what it needs, so that a plug-in's `import kbench` stays cheap.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.errors import ConfigError, ConfigIssue, SourceLocation
from kbench.notebook.parameter_names import errors_name_parameters, name_parameters

if TYPE_CHECKING:
    import pandas as pd

    from kbench.config.load import Config
    from kbench.execute.existing_results import ResumeMode
    from kbench.execute.run import RunOptions, RunResult
    from kbench.notebook.comparison_view import ComparisonView
    from kbench.notebook.frames import ResultsSource
    from kbench.notebook.functions import Functions
    from kbench.notebook.pictures import Pictures


@errors_name_parameters
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
    keep_trying: bool = False,
) -> pd.DataFrame:
    """Measure a config and return its rows, controls included, in the types of `load`. The CSV and the environment file are
    written to `out`.

    `config` is a file, the name of a built-in config, or a mapping with the content of such a file. The results of a mapping
    get the name of its operator. `providers` are more functions to measure, as `{name: function}` or a list. Each takes the
    operator's inputs and returns a new output. kbench sends the source of the functions, and of everything that they use, to
    its worker process. They may use modules, functions, classes, numbers, text and collections of these, also from a
    notebook. Any other object, such as a tensor of the notebook, is an error.

    `shapes` is a CSV with the shapes to measure instead of those of the sweep, and how often each occurs (column `weight`).
    `sessions` is the number of fresh processes that repeat the sweep. `continuing="resume"` measures the missing cases of an
    interrupted run, `"append"` adds sessions to a finished run. `devices` (`"all"`, or numbers and UUIDs separated by commas)
    measures on several devices of this host at once. `scheduler` measures on the workers of a dask cluster. `spread` measures
    the sessions of a case on different devices. `keep_trying` tries a provider again also after it has crashed or timed out
    in two cases in a row.

    Raises ConfigError for a config or a function that cannot be used, ResultsError when the results cannot be written or
    continued, Busy when another run has the results, WorkerLost when no worker can be started, KeyboardInterrupt when
    interrupted and ExecutionError when nothing is left to measure on (what was measured is in the CSV). A provider that fails
    is a row, not an exception.
    """
    from kbench.config.load import load_config
    from kbench.execute.run import RunOptions
    from kbench.notebook import functions

    changes = [*_several(sets), *([] if sessions is None else [f"--sessions={sessions}"])]
    options = RunOptions(Path(out), devices, scheduler, spread, continuing, keep_trying=keep_trying)
    with tempfile.TemporaryDirectory(prefix="kbench-") as folder:
        files = _several(plugins)
        if providers:
            if scheduler is not None:
                where = SourceLocation("providers")
                raise ConfigError(
                    [
                        ConfigIssue(
                            where,
                            "functions cannot be sent to a cluster; put them in a file on every host, and pass plugins=[file]",
                        )
                    ]
                )
            names = functions.by_name(providers)
            if isinstance(config, Mapping):
                config = {"providers": list(names), **config}
            operator = load_config(config, sets=changes, profile=profile).operator
            files += map(str, functions.write_plugins(names, operator, Path(folder)))
        wanted = None if shapes is None else Path(shapes)
        loaded = load_config(config, sets=changes, only=_several(only), profile=profile, plugins=files, shapes=wanted)
        outcome = _execute(loaded, options)
    if outcome.interrupted:
        raise KeyboardInterrupt(f"interrupted; the rows measured so far are in {outcome.csv}")
    return load(outcome.csv)


def _execute(loaded: Config, options: RunOptions) -> RunResult:
    from kbench.execute.executors.prepare import prepare
    from kbench.execute.run import execute

    with prepare(loaded, options, lambda line: None) as prepared:
        return execute(prepared, options)


def load(path: str | Path) -> pd.DataFrame:
    """The rows of a results CSV, controls included, indexed by the line of the file on which each begins.

    Numbers are float64 with NaN for what is not known, `session` is int64, axes are Int64 or text, `samples` and
    `device_index` Int64, `deterministic` boolean, and `round_ms` tuples of floats. `flags` is text, several between
    semicolons. Raises ResultsError for a file that is not one.
    """
    from kbench.results.frame import frame_of
    from kbench.results.reader import read_results

    return frame_of(read_results(path))


@errors_name_parameters
def compare(
    *sources: ResultsSource | Mapping[str, ResultsSource],
    where: str = "",
    metric: str = "ms",
    margin: float = 0.02,
    vary: str | Sequence[str] = (),
    fail_on: str | Sequence[str] = (),
) -> ComparisonView:
    """Tell two results apart, row by row: the old ones, then the new ones.

    A source is a path, `LABEL=path`, or a frame that `load` or `run` returned, of which rows may be chosen; a mapping
    `{label: source}` names both. `margin` is the smallest change of interest, as a share. `fail_on` has the verdicts with
    which `passed` is false. Raises UsageError.
    """
    from dataclasses import replace

    from kbench.comparison.compare import compare_results
    from kbench.comparison.options import CompareOptions
    from kbench.notebook import frames
    from kbench.notebook.comparison_view import ComparisonView

    options = CompareOptions(where, metric, margin, tuple(_words(vary)), tuple(_words(fail_on)))
    with frames.as_files(*sources) as files:
        found = compare_results(*files.sources, options=options)
    parameters = inspect.signature(compare).parameters
    notes = [name_parameters(files.readable(note), parameters) for note in found.notes if files.of_a_file(note)]
    return ComparisonView.of(replace(found, notes=tuple(notes)))


@errors_name_parameters
def plot(
    *sources: ResultsSource | Mapping[str, ResultsSource],
    metric: str = "",
    kind: str = "lines",
    x: str | None = None,
    by: str | Sequence[str] = (),
    margin: float = 0.02,
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
    from kbench.notebook import frames
    from kbench.notebook.pictures import Pictures

    choices = plotting.Choices(metric, kind, x, tuple(_words(by)), theme, margin)
    with frames.as_files(*sources) as files:
        folder = out if out is not None else files.home
        return Pictures(plotting.write_pictures(files.sources, choices, folder, _words(formats), where=where))


@errors_name_parameters
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
    from kbench.notebook import frames
    from kbench.reporting import write_report

    with frames.as_files(*sources, *([] if baseline is None else [baseline])) as files:
        old = None if baseline is None else files.sources.pop()
        return write_report(files.sources, out, baseline=old, where=where, title=title, readable=files.readable)


def _words(words: str | Sequence[str]) -> list[str]:
    """A list of words. Commas inside a word separate words, as on the command line."""
    return [word.strip() for text in _several(words) for word in text.split(",") if word.strip()]


def _several(words: str | Path | Sequence[str | Path]) -> list[str]:
    """A list of words. A single word becomes a list of one."""
    return [str(word) for word in ([words] if isinstance(words, (str, Path)) else words)]
