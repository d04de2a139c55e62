"""Results as a notebook has them: frames with the columns' own types, and frames where a file is expected.

`table.read` is what kbench itself reads: its cells are as the file has them. Here is what `kbench.load` and `kbench.run`
return, and the way back: a frame becomes a file again, so that it is checked and read as one.
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
from kbench.results import environment_file
from kbench.results.columns import LINE, Kind, columns_of, csv_header

Source = str | Path | pd.DataFrame


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame that `table.read` returned, with `deterministic` as boolean, `samples` and `device_index` as Int64 (all with
    `pd.NA` for what is not known), and `round_ms` as tuples of floats, in ms."""
    found: pd.DataFrame = frame.copy()
    found["deterministic"] = frame["deterministic"].map({"True": True, "False": False}).astype("boolean")
    rounds = [tuple(map(float, cell.split(";"))) if cell else () for cell in frame["round_ms"]]
    found["round_ms"] = pd.Series(rounds, frame.index, dtype="object")
    for name in columns_of(Kind.INTEGER):
        known = frame[name].dropna()
        if (known % 1 == 0).all():  # not where somebody has written a fraction: that is kept as it is
            found[name] = frame[name].astype("Int64")
    return found


@dataclass(frozen=True)
class Files:
    """`sources` as the commands take them: `path` or `LABEL=path`. `folder` has those that were frames, if any were; `home`
    is where pictures of the first one belong, if it was a frame."""

    sources: list[str]
    folder: Path | None = None
    home: Path | None = None

    def of_a_file(self, note: str) -> bool:
        """Whether a note is of a file that is there: a frame's environment file may not be."""
        return not self.folder or str(self.folder) not in note or "no such file" not in note

    def readable(self, text: str) -> str:
        """A text that may name a temporary file, with the name that the frame goes by: `softmax.csv`."""
        return re.sub(rf"{re.escape(str(self.folder))}/\d+/", "", text) if self.folder else text


@contextmanager
def as_files(*sources: Source | Mapping[str, Source]) -> Iterator[Files]:
    """Sources as files, those of a mapping under its labels. Frames are written to temporary ones.

    A frame that came from a file is called as that file, another one `frame`, and `frame-2` where that is taken. Raises
    UsageError for a frame that lacks columns, and in one that is raised inside names the frame, not the temporary file.
    """
    with ExitStack() as stack:
        folder, home, taken, found = None, None, set[str](), list[str]()
        for label, source in _labelled(sources):
            if isinstance(source, pd.DataFrame):
                home = home if found else Path(str(source.attrs.get("path", "frame"))).parent
                folder = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbench-")))
                name = _unique(label or _stem(source), taken)
                taken.add(name)
                found.append(f"{name}={_write(source, folder / str(len(taken)), name)}")
            else:
                found.append(f"{label}={source}" if label else str(source))
        files = Files(found, folder, home)
        try:
            yield files
        except (UsageError, ResultsError) as error:
            raise type(error)(files.readable(str(error))) from None


def _labelled(sources: Sequence[Source | Mapping[str, Source]]) -> Iterator[tuple[str, Source]]:
    for source in sources:
        if isinstance(source, Mapping):
            for label, each in source.items():
                if not label or "=" in label:
                    raise UsageError(f"the label {label!r} has an equals sign; choose a label without one")
                yield label, each
        else:
            yield "", source


def _stem(frame: pd.DataFrame) -> str:
    return Path(str(frame.attrs.get("path", "frame"))).stem.replace("=", "-") or "frame"


def _unique(name: str, taken: Collection[str]) -> str:
    numbered = (name if n == 1 else f"{name}-{n}" for n in range(1, len(taken) + 2))
    return next(each for each in numbered if each not in taken)


def _write(frame: pd.DataFrame, folder: Path, name: str) -> Path:
    """The frame as a results file, with a copy of the environment file that belongs to it."""
    frame = frame.drop(columns=LINE, errors="ignore")
    if missing := [column for column in csv_header([]) if column not in frame]:
        few = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        raise UsageError(
            f"{name}: the frame has no column {few}; choose rows of what kbench.load returned, not columns"
        )
    stem = re.sub(r"[^\w.-]+", "-", name)
    path = folder / f"{stem}.csv"
    folder.mkdir()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(frame.columns)
        writer.writerows([_cell(value) for value in row] for row in frame.itertuples(index=False, name=None))
    if origin := frame.attrs.get("path"):
        environment = environment_file.environment_path(str(origin))
        if environment.is_file():
            shutil.copyfile(environment, environment_file.environment_path(path))
    return path


def _cell(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return ";".join(_cell(each) for each in value)
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    value = value.item() if hasattr(value, "item") else value  # numpy's numbers write themselves in another way
    if isinstance(value, float):
        return "" if value != value else repr(value)
    return str(value)
