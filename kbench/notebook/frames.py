"""Frames as arguments of functions that expect a file.

`as_files` writes a frame to a temporary file, which is then read and checked like any other file.
"""

from __future__ import annotations

import csv
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from kbench.errors import ResultsError, UsageError
from kbench.results.cells import format_cell
from kbench.results.environment import environment_path
from kbench.results.row import LINE, csv_header

ResultsSource = str | Path | pd.DataFrame


@dataclass(frozen=True)
class SourceFiles:
    """The files that stand for the arguments of a notebook function.

    sources  `path` or `LABEL=path`, as the commands take them
    folder   the temporary folder that holds the frames; None if no argument was a frame
    pictures_folder  that for pictures of the first argument; None if that was no frame
    """

    sources: list[str]
    folder: Path | None = None
    pictures_folder: Path | None = None

    def of_a_file(self, note: str) -> bool:
        """Whether a note is about a file of the user. A frame may have no environment file, which is not worth a note."""
        return not self.folder or str(self.folder) not in note or "no such file" not in note

    def readable(self, text: str) -> str:
        """The text with `softmax.csv`, the name of the frame, in place of the path of its temporary file."""
        return re.sub(rf"{re.escape(str(self.folder))}/\d+/", "", text) if self.folder else text


@contextmanager
def as_files(*sources: ResultsSource | Mapping[str, ResultsSource]) -> Iterator[SourceFiles]:
    """Write frames to temporary files and yield all sources as files. The keys of a mapping become labels.

    A frame that was read from a file gets the name of that file. Any other frame is `frame`, the next one `frame-2`. Raises
    UsageError for a frame that lacks columns. In a UsageError or ResultsError from inside the `with` block, the name of the
    frame replaces the path of its temporary file.
    """
    with ExitStack() as stack:
        folder, pictures_folder, names, files_of_sources = None, None, set[str](), list[str]()
        for label, source in _labelled(sources):
            if isinstance(source, pd.DataFrame):
                if not files_of_sources:
                    pictures_folder = Path(str(source.attrs.get("path", "frame"))).parent
                folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbench-")))
                stem = Path(str(source.attrs.get("path", "frame"))).stem.replace("=", "-")
                name = _unique(label or stem or "frame", names)
                names.add(name)
                files_of_sources.append(f"{name}={_write(source, folder / str(len(names)), name)}")
            else:
                files_of_sources.append(f"{label}={source}" if label else str(source))
        files = SourceFiles(files_of_sources, folder, pictures_folder)
        try:
            yield files
        except (UsageError, ResultsError) as error:
            raise type(error)(files.readable(str(error))) from None


def _labelled(sources: Sequence[ResultsSource | Mapping[str, ResultsSource]]) -> Iterator[tuple[str, ResultsSource]]:
    for source in sources:
        if isinstance(source, Mapping):
            for label, labelled in source.items():
                if not label or "=" in label:
                    raise UsageError(f"the label {label!r} is empty or has an equals sign; choose another label")
                yield label, labelled
        else:
            yield "", source


def _unique(name: str, names: Collection[str]) -> str:
    numbered = (name if n == 1 else f"{name}-{n}" for n in range(1, len(names) + 2))
    return next(candidate for candidate in numbered if candidate not in names)


def _write(frame: pd.DataFrame, folder: Path, name: str) -> Path:
    """Write a frame to a results file, beside a copy of its environment file, and return the path."""
    frame = frame.drop(columns=LINE, errors="ignore")
    if missing := [column for column in csv_header([]) if column not in frame]:
        few = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        raise UsageError(f"{name}: the frame has no column {few}; keep all columns of what kbench.load returned")
    stem = re.sub(r"[^\w.-]+", "-", name)
    path = folder / f"{stem}.csv"
    folder.mkdir()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(frame.columns)
        writer.writerows([_cell(value) for value in row] for row in frame.itertuples(index=False, name=None))
    if origin := frame.attrs.get("path"):
        environment = environment_path(str(origin))
        if environment.is_file():
            shutil.copyfile(environment, environment_path(path))
    return path


def _cell(value: Any) -> str:
    if value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, list):
        return format_cell(tuple(value))
    return format_cell(
        value.item() if hasattr(value, "item") else value
    )  # the repr of a numpy number is not a plain number
