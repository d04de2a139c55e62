"""The Python API behind `kbench.run`, `load`, `compare` and `plot`: what the commands do, without the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from kbench.comparison import Comparison
    from kbench.execute.history import Continuing


def run(
    config: str | Path,
    *,
    out: str | Path = "results",
    sets: str | Sequence[str] = (),
    only: str | Sequence[str] = (),
    profile: str | None = None,
    plugins: str | Path | Sequence[str | Path] = (),
    continuing: Continuing | None = None,
    devices: str | None = None,
    scheduler: str | None = None,
    spread: bool = False,
) -> pd.DataFrame:
    """Measure a config and return its rows, controls included; the CSV and the environment file are in `out`.

    `continuing="resume"` measures what an interrupted run has left, `"append"` adds `measure.sessions` to a finished one.
    `devices` (`"all"`, or numbers and UUIDs between commas) measures on several devices of this host side by side, `scheduler`
    on the workers of a dask cluster; `spread` lets the sessions of a case go to different ones.

    Raises ConfigError for a config that does not hold, kbench.results.ResultsError when the results cannot be written or
    continued, kbench.execute.worker.WorkerLost when no worker can be started, KeyboardInterrupt when interrupted and
    kbench.execute.executor.ExecutionError when nothing is left to measure on (what was measured is in the CSV). A provider
    that fails is a row, not an exception.
    """
    from kbench import config as configs
    from kbench.execute.run import Target, execute, prepare

    loaded = configs.load(
        Path(config), sets=_several(sets), only=_several(only), profile=profile, plugins=_several(plugins)
    )
    with prepare(loaded, lambda line: None, Target(devices, scheduler, spread)) as prepared:
        outcome = execute(prepared, Path(out), continuing=continuing)
    if outcome.interrupted:
        raise KeyboardInterrupt(f"interrupted; what was measured is in {outcome.csv}")
    return load(outcome.csv)


def load(path: str | Path) -> pd.DataFrame:
    """The rows of a results CSV. Raises kbench.table.TableError for a file that is not one."""
    from kbench import table

    return table.read(Path(path))


def compare(
    *sources: str | Path,
    by: str = "file",
    baseline: str | None = None,
    where: str = "",
    metric: str = "ms",
    margin: float = 0.02,
    vary: str | Sequence[str] = (),
) -> Comparison:
    """Tell results files apart, row by row: each against the first, or against the one labelled `baseline`.

    A source is a path or `LABEL=path`. `by="provider"` compares the providers of one file. `margin` is the smallest change of
    interest, as a share. Raises kbench.table.TableError.
    """
    from kbench import comparison

    names = _several(vary)
    return comparison.compare(*sources, by=by, baseline=baseline, where=where, metric=metric, margin=margin, vary=names)


def plot(
    *files: str | Path,
    metric: str = "gbps",
    kind: str = "lines",
    x: str | None = None,
    by: str | Sequence[str] = (),
    where: str = "",
    theme: str = "light",
    formats: str | Sequence[str] = ("png", "svg"),
    out: str | Path | None = None,
) -> list[Path]:
    """Draw results CSVs, several into one picture, beside the first or in `out`. Returns the pictures' paths.

    Options are those of `kbench plot`. Raises kbench.table.TableError.
    """
    from kbench import plotting

    choices = plotting.Choices(metric=metric, kind=kind, x=x, by=_several(by), theme=theme)
    return plotting.write(files, choices, out, _several(formats), where=where)


def _several(words: str | Path | Sequence[str | Path]) -> list[str]:
    """A list of words; a single one is not a list of its letters."""
    return [str(word) for word in ([words] if isinstance(words, (str, Path)) else words)]
