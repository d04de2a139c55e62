"""Frames as arguments of functions that expect a results file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import pandas as pd

from kbench.analysis.files import ResultsFile, Source
from kbench.errors import UsageError
from kbench.results.cells import format_cell
from kbench.results.environment import Environment, read_environment
from kbench.results.reader import Results, check_header, results_of
from kbench.results.row import LINE, csv_header

ResultsSource = str | Path | pd.DataFrame


def sources_of(arguments: Sequence[ResultsSource | Mapping[str, ResultsSource]]) -> list[Source]:
    """The results that are meant. The keys of a mapping become labels. A frame has the environment of the file that it was
    read from.

    A frame without a label is called as its file is. One that was read from no file is `frame`, the next one `frame-2`. Raises
    UsageError for a frame that lacks columns, and ResultsError for one with a wrong cell.
    """
    sources: list[Source] = []
    names: set[str] = set()
    for label, argument in _labelled(arguments):
        if isinstance(argument, pd.DataFrame):
            path = Path(str(argument.attrs.get("path", "frame.csv")))
            base = label or path.stem
            candidates = chain([base], (f"{base}-{number}" for number in count(2)))
            name = next(candidate for candidate in candidates if candidate not in names)
            names.add(name)
            environment = read_environment(path) if "path" in argument.attrs else (Environment(), "")
            sources.append(ResultsFile(name, replace(_results(argument, name), path=path), *environment))
        else:
            sources.append(f"{label}={argument}" if label else argument)
    return sources


def _labelled(
    arguments: Sequence[ResultsSource | Mapping[str, ResultsSource]],
) -> Iterator[tuple[str, ResultsSource]]:
    for argument in arguments:
        if isinstance(argument, Mapping):
            for label, labelled in argument.items():
                if not label or "=" in label:
                    raise UsageError(f"the label {label!r} is empty or has an equals sign; choose another label")
                yield label, labelled
        else:
            yield "", argument


def _results(frame: pd.DataFrame, name: str) -> Results:
    """The rows of a frame, which errors call by its name. Its index has the lines of the file, if it was read from one."""
    of_file = frame.index.name == LINE and frame.index.is_unique
    lines = [int(line) for line in frame.index] if of_file else range(2, len(frame) + 2)
    frame = frame.drop(columns=LINE, errors="ignore")
    if missing := [column for column in csv_header([]) if column not in frame]:
        few = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        raise UsageError(f"{name}: the frame has no column {few}; keep all columns of what kbench.load returned")
    check_header(name, list(frame.columns))
    records = [[_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return results_of(Path(f"{name}.csv"), list(frame.columns), lines, records)


def _cell(value: Any) -> str:
    if value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, list):
        return format_cell(tuple(value))
    # the repr of a numpy number is not a plain number
    return format_cell(value.item() if hasattr(value, "item") else value)
