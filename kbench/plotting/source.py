"""The files of a picture: their rows, what they are called, and the machine they were measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kbench import sidecar, table
from kbench.results import PROVIDER, curve_name
from kbench.table import TableError
from kbench.where import Where


@dataclass(frozen=True)
class Source:
    """A results file under the name that the picture gives it: the rows to draw, the curves of all its rows, and its
    environment, which is empty where the sidecar is not there."""

    label: str
    path: Path
    frame: pd.DataFrame
    curves: frozenset[str]
    environment: dict[str, Any]

    @property
    def peak_gbps(self) -> float | None:
        """The theoretical bandwidth of the device's memory."""
        return _positive(self.environment.get("peak_gbps"))

    @property
    def cache_bytes(self) -> float | None:
        """The size of the device's last-level cache."""
        return _positive(self.environment.get("cache_bytes"))


def load(files: Sequence[Path | str], where: str = "") -> list[Source]:
    """Read `path` or `LABEL=path` each; a label left out is the file's stem. `where` chooses rows.

    A file of which no provider is left is left out. Raises TableError, also when that is every file, or there is none.
    """
    if not files:
        raise TableError("no results to draw; name a CSV")
    named = [table.named(file) for file in files]
    stems = [path.stem for _, path in named]
    chosen = Where.parse(where)
    sources, left_out = [], []
    for label, path in named:
        stem = path.stem if stems.count(path.stem) == 1 else f"{path.parent.name}/{path.stem}"
        frame = table.read(path)
        rows = frame if not chosen.terms else chosen.select(frame)
        if chosen.terms and not (rows["role"] == PROVIDER).any():
            left_out.append(frame)
            continue
        providers = frame[frame["role"] == PROVIDER]
        curves = frozenset(map(curve_name, providers["provider"], providers["params"]))
        sources.append(Source(label or stem, path, rows, curves, sidecar.read(path)[0]))
    if not sources:
        raise TableError(chosen.nothing(left_out[0]))
    labels = [source.label for source in sources]
    if repeated := next((label for label in labels if labels.count(label) > 1), None):
        raise TableError(f"two files are called {repeated!r}; give them names: old=a.csv new=b.csv")
    return sources


def _positive(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and value > 0 else None
