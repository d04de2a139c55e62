"""The files of a picture or a report: their rows, labels, environment and analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from kbench.analysis import Analysis, analyse, rows_of
from kbench.errors import ResultsError, UsageError
from kbench.results import environment_file, table
from kbench.results.case import configuration_name
from kbench.results.row_filter import RowFilter
from kbench.results.vocabulary import Role

OWN = (
    "file", "curve", "kind", "value", "low", "high", "suspect", "hollow", "claimed", "bytes", "x", "y", "margin", "tied",
    "unclear", "winner", "word", "effect",
)  # fmt: skip
"""Columns that pictures and reports add to those of a results file. An axis of such a name is called `axis_<name>`."""


@dataclass(frozen=True)
class ResultsFile:
    """A results file.

    label        its name in the picture
    frame        the rows that `where` chooses
    configurations   the names of the configurations of all rows, whatever `where` chooses
    environment  the content of the environment file, empty where there is none
    """

    label: str
    path: Path
    frame: pd.DataFrame
    configurations: frozenset[str]
    environment: dict[str, Any]
    where: str = ""

    @cached_property
    def analysis(self) -> Analysis:
        """The winners, the standings and the noise of the chosen rows."""
        stated = self.environment.get("baseline")
        return analyse(rows_of(self.frame), stated if isinstance(stated, str) else None)

    @property
    def warnings(self) -> list[str]:
        """What could not be read of the file and of its environment file, a line each."""
        return [str(warning) for warning in self.frame.attrs["warnings"]]

    @property
    def peak_gbps(self) -> float | None:
        """The theoretical bandwidth of the device's memory, in GB/s."""
        return self.environment.get("peak_gbps") or None

    @property
    def cache_bytes(self) -> float | None:
        """The size of the device's last-level cache, in bytes."""
        return self.environment.get("cache_bytes") or None


def load_sources(files: Sequence[Path | str], where: str = "") -> list[ResultsFile]:
    """The files, each given as `path` or `LABEL=path`. The default label is the stem of the path. `where` chooses rows.

    A file in which `where` chooses no row of a provider is left out. Raises UsageError if no file is left, or if two labels
    are equal; ResultsError if a file cannot be read.
    """
    if not files:
        raise ResultsError("no results file was given; name a CSV")
    named = [table.parse_source(file) for file in files]
    stems = [path.stem for _, path in named]
    chosen = RowFilter.parse(where)
    sources, left_out = [], []
    for label, path in named:
        stem = path.stem if stems.count(path.stem) == 1 else f"{path.parent.name}/{path.stem}"
        frame = table.read_results(path)
        rows = _renamed(frame if not chosen.terms else chosen.select(frame))
        if chosen.terms and not (rows["role"] == Role.PROVIDER).any():
            left_out.append(frame)
            continue
        providers = frame[frame["role"] == Role.PROVIDER]
        configurations = frozenset(map(configuration_name, providers["provider"], providers["params"]))
        beside = environment_file.read_environment(path)
        if beside.there and beside.note:
            rows.attrs["warnings"] = [*rows.attrs["warnings"], beside.note]
        sources.append(ResultsFile(label or stem, path, rows, configurations, beside.environment, where))
    if not sources:
        raise UsageError(chosen.nothing(left_out[0]))
    labels = [source.label for source in sources]
    if repeated := next((label for label in labels if labels.count(label) > 1), None):
        raise UsageError(f"two files have the label {repeated!r}; give each its own label: old=a.csv new=b.csv")
    return sources


def _renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, in which an axis is renamed if its name is in OWN."""
    names = unclaimed(table.axes(frame))
    renamed: pd.DataFrame = frame.rename(columns=names)
    return renamed


def unclaimed(axes: Sequence[str]) -> dict[str, str]:
    """A name for each axis that is not in OWN: `axis_value` for an axis called `value`, and otherwise its own name."""
    names: dict[str, str] = {}
    for axis in axes:
        name = axis
        while name in OWN or (name != axis and name in axes):
            name = f"axis_{name}"
        names[axis] = name
    return names
