"""The files a run leaves: the CSV, appended to case by case, and the environment sidecar beside it."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kbench.results import ResultsError, Row, columns
from kbench.sidecar import environment_path


def move_aside(paths: Sequence[Path]) -> list[Path]:
    """Rename earlier files of one run to names dated alike, by the last change of the first. Returns the new names."""
    there = [path for path in paths if path.exists()]
    if not there:
        return []
    stamp = datetime.fromtimestamp(there[0].stat().st_mtime).strftime("%Y%m%d-%H%M%S")
    for n in range(1000):
        targets = {path: _dated(path, f"{stamp}-{n}" if n else stamp) for path in paths}
        if not any(target.exists() for target in targets.values()):
            return [path.rename(targets[path]) for path in there]
    raise FileExistsError(f"{there[0]}: could not find a free name to move it to")


def _dated(path: Path, stamp: str) -> Path:
    stem, suffix = path.name.split(".", 1)
    return path.with_name(f"{stem}.{stamp}.{suffix}")


def probe(path: Path) -> None:
    """Make sure that results can be written at `path`, its folder included, before anything is measured or moved.

    Raises ResultsError.
    """
    if path.is_dir():
        raise ResultsError(f"{path}: is a folder where the results belong; move it away or choose another --out")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(b"kbench")
    except (FileExistsError, NotADirectoryError):
        raise ResultsError(f"{path.parent}: is not a folder; choose another --out") from None
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None


@dataclass
class Writer:
    """Appends rows to a CSV, case by case and through to the disk, so that a killed run keeps what it had measured.

    A new file takes the place of an earlier one, which is moved aside. With `keep`, the earlier file is continued after
    so many bytes of it. Raises ResultsError where the file system does not play along; what was written stays.
    """

    path: Path
    axes: tuple[str, ...]
    keep: int | None = None
    moved: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        probe(self.path)
        with _explained(self.path, "nothing was measured"):
            if self.keep is None:
                self._begin()
            # Held open: the rows follow the file even if somebody renames it meanwhile. Unbuffered: a case is one write.
            self._file = self.path.open("ab", buffering=0)
            if self.keep is not None:
                self._file.truncate(self.keep)

    def _begin(self) -> None:
        """Put an empty table in the place of earlier results. It appears at once with its header, after all that can fail."""
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(columns(self.axes))
        with _replacing(self.path, header.getvalue()):
            self.moved = move_aside((self.path, self.environment_path))

    def close(self) -> None:
        self._file.close()

    @property
    def environment_path(self) -> Path:
        return environment_path(self.path)

    def write(self, rows: Sequence[Row]) -> None:
        """Append the rows of a case: all of them or, on a full disk, none."""
        text = io.StringIO()
        csv.DictWriter(text, columns(self.axes), lineterminator="\n").writerows(row.cells() for row in rows)
        data = text.getvalue().encode()
        size = os.fstat(self._file.fileno()).st_size
        with _explained(self.path, "what was measured before is kept, go on with --resume"):
            try:
                written = self._file.write(data)
                while written < len(data):  # the disk has filled up: the next write says so
                    written += self._file.write(data[written:])
                os.fsync(self._file.fileno())
            except OSError:
                self._file.truncate(size)
                raise

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Replace the sidecar in one step, so that it is never half written."""
        text = json.dumps(environment, indent=2, default=str) + "\n"
        with (
            _explained(self.environment_path, "what was measured before is kept"),
            _replacing(self.environment_path, text),
        ):
            pass


@contextmanager
def _explained(path: Path, consequence: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror}); {consequence}") from None


@contextmanager
def _replacing(path: Path, text: str) -> Iterator[None]:
    """Write `text` beside `path`, then, after the body, put it in its place: a reader sees the old file or the new one."""
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
