"""The files of a picture: their rows, what they are called, and the machine they were measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kbench.errors import ResultsError, UsageError
from kbench.results import environment_file, table
from kbench.results.row import PROVIDER, curve_name
from kbench.results.row_filter import RowFilter

OWN = (
    "file", "curve", "kind", "value", "low", "high", "suspect", "hollow", "claimed", "bytes", "x", "y", "margin", "tied",
    "unclear", "winner", "word", "effect",
)  # fmt: skip
"""Columns that pictures and reports add to those of a results file."""


@dataclass(frozen=True)
class Source:
    """A results file under the name that the picture gives it: the rows to draw, the curves of all its rows, its
    environment, which is empty where the sidecar is not there, and what rows were asked for."""

    label: str
    path: Path
    frame: pd.DataFrame
    curves: frozenset[str]
    environment: dict[str, Any]
    where: str = ""

    @property
    def peak_gbps(self) -> float | None:
        """The theoretical bandwidth of the device's memory."""
        return self.environment.get("peak_gbps") or None

    @property
    def cache_bytes(self) -> float | None:
        """The size of the device's last-level cache."""
        return self.environment.get("cache_bytes") or None


def load(files: Sequence[Path | str], where: str = "") -> list[Source]:
    """Read `path` or `LABEL=path` each; a label left out is the file's stem. `where` chooses rows.

    A file of which no provider is left is left out. Raises UsageError, also when that is every file, or there is none.
    """
    if not files:
        raise ResultsError("no results to draw; name a CSV")
    named = [table.named(file) for file in files]
    stems = [path.stem for _, path in named]
    chosen = RowFilter.parse(where)
    sources, left_out = [], []
    for label, path in named:
        stem = path.stem if stems.count(path.stem) == 1 else f"{path.parent.name}/{path.stem}"
        frame = table.read(path)
        rows = _apart(frame if not chosen.terms else chosen.select(frame))
        if chosen.terms and not (rows["role"] == PROVIDER).any():
            left_out.append(frame)
            continue
        providers = frame[frame["role"] == PROVIDER]
        curves = frozenset(map(curve_name, providers["provider"], providers["params"]))
        beside = environment_file.read(path)
        if beside.there and beside.note:
            rows.attrs["warnings"] = [*rows.attrs["warnings"], beside.note]
        sources.append(Source(label or stem, path, rows, curves, beside.environment, where))
    if not sources:
        raise UsageError(chosen.nothing(left_out[0]))
    labels = [source.label for source in sources]
    if repeated := next((label for label in labels if labels.count(label) > 1), None):
        raise UsageError(f"two files are called {repeated!r}; give them names: old=a.csv new=b.csv")
    return sources


def _apart(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with another name for every axis that is called like one of the columns that pictures add: `axis_value`."""
    names = unclaimed(table.axes(frame))
    renamed: pd.DataFrame = frame.rename(columns=names)
    return renamed


def unclaimed(axes: Sequence[str]) -> dict[str, str]:
    """What axes are called beside the columns that pictures add."""
    names: dict[str, str] = {}
    for axis in axes:
        name = axis
        while name in OWN or (name != axis and name in axes):
            name = f"axis_{name}"
        names[axis] = name
    return names
