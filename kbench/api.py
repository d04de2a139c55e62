"""The Python API behind `kbench.run`, `load`, `compare` and `plot`: what the commands do, without the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from kbench.comparison import Comparison


def run(
    config: str | Path,
    *,
    out: str | Path = "results",
    sets: Sequence[str] = (),
    only: Sequence[str] = (),
    profile: str | None = None,
    plugins: Sequence[str] = (),
) -> pd.DataFrame:
    """Measure a config and return its rows, controls included; the CSV and the environment file are in `out`.

    Raises ConfigError for a config that does not hold, OSError when the results cannot be written, KeyboardInterrupt
    when interrupted (what was measured is in the CSV). A provider that fails is a row, not an exception.
    """
    from kbench import config as configs
    from kbench.execute.run import execute, prepare

    loaded = configs.load(Path(config), sets=sets, only=only, profile=profile, plugins=plugins)
    with prepare(loaded, note=lambda line: None) as prepared:
        outcome = execute(prepared, Path(out))
    if outcome.interrupted:
        raise KeyboardInterrupt(f"interrupted; what was measured is in {outcome.csv}")
    return load(outcome.csv)


def load(path: str | Path) -> pd.DataFrame:
    """The rows of a results CSV. Raises kbench.table.TableError for a file that is not one."""
    from kbench import table

    return table.read(Path(path))


def compare(old: str | Path, new: str | Path) -> Comparison:
    """Tell two results files apart, row by row. Raises kbench.table.TableError."""
    from kbench import comparison

    return comparison.compare(Path(old), Path(new))


def plot(path: str | Path, *, metric: str = "gbps", out: str | Path | None = None) -> list[Path]:
    """Draw a results CSV as PNG and SVG, beside it or in `out`. Raises kbench.table.TableError."""
    from kbench import plotting

    return plotting.write(Path(path), metric, Path(out) if out else Path(path).parent)
