"""Writes the files of a run: the CSV, case by case, and the environment file beside it."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from kbench import files
from kbench.errors import ResultsError
from kbench.execute.lock import lock_open_results
from kbench.launches.kernels_file import kernels_path
from kbench.results.csv_reader import MAX_BYTES
from kbench.results.environment_file import environment_path
from kbench.results.row import Row, csv_header

ROWS_STAY = "the rows measured so far are kept"
"""What becomes of the rows if a results file cannot be written any more."""


def move_aside(csv: Path) -> list[Path]:
    """Rename an earlier results file and the files beside it, with the same date in all names. Returns the new names.

    The environment file and the kernels file get their new names first and keep the old ones too. A process that dies in
    between then leaves every CSV with both. The caller replaces the old ones when it writes the new CSV.
    """
    group = (csv, environment_path(csv), kernels_path(csv))
    there = [path for path in group if os.path.lexists(path)]
    if not there:
        return []
    stamp = datetime.fromtimestamp(there[0].lstat().st_mtime).strftime("%Y%m%d-%H%M%S")
    for n in range(1000):
        targets = {path: _dated(path, f"{stamp}-{n}" if n else stamp) for path in group}
        if not any(map(os.path.lexists, targets.values())):
            break
    else:
        raise FileExistsError(
            17,
            "kbench cannot back up this file, because all backup names are taken; move old results away, or "
            "choose another --out",
            str(there[0]),
        )
    for beside in there:
        if beside != csv:
            _double(beside, targets[beside])
    if csv in there:
        csv.rename(targets[csv])
    return [targets[path] for path in there]


def _double(path: Path, target: Path) -> None:
    """Give a file a second name, or copy it on a file system without hard links. A link or a FIFO is renamed."""
    if path.is_symlink() or not path.is_file():
        path.rename(target)
        return
    try:
        os.link(path, target)
    except OSError:
        shutil.copyfile(path, target)


def _dated(path: Path, stamp: str) -> Path:
    stem, suffix = path.name.split(".", 1)
    return path.with_name(f"{stem}.{stamp}.{suffix}")


def check_writable(path: Path) -> None:
    """Check that results can be written at `path`, before anything is measured or renamed. Makes the folder.

    Raises ResultsError.
    """
    try:
        if path.is_dir():
            raise ResultsError(
                f"{path}: is a folder, but kbench writes the results file there; move it away or choose another --out"
            )
        if path.is_symlink():
            path.stat()  # a loop of links
    except FileNotFoundError:  # a link to a file that does not exist yet
        pass
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}); move it away or choose another --out") from None
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
    """Appends rows to a CSV, case by case, and waits until they are on the disk. A killed run keeps its finished cases.

    A new file replaces an earlier one, which is renamed. With `keep`, the first `keep` bytes of the earlier file stay, and
    rows are appended to them. The writer keeps the file's content in memory. When another program removes, replaces or
    changes the file during the run, the writer renames that version, writes the whole content again, and passes a line to
    `note`. Raises ResultsError when the file cannot be written; what is on the disk stays, and `unwritten` says so.
    """

    path: Path
    axes: tuple[str, ...]
    keep: int | None = None
    unwritten: str = ROWS_STAY
    note: Callable[[str], None] = lambda line: None
    moved: list[Path] = field(default_factory=list)
    _content: bytearray = field(default_factory=bytearray)
    _unsure: bytes = b""
    _environment: str = ""

    def __post_init__(self) -> None:
        check_writable(self.path)
        with _explained(self.path, "nothing was measured"):
            if self.keep is None:
                header = io.StringIO()
                csv.writer(header, lineterminator="\n").writerow(csv_header(self.axes))
                self._content += header.getvalue().encode()
                self.moved = self._begin(aside=True)
            else:
                self._content += files.read_bytes(self.path, MAX_BYTES)[: self.keep]
            self._open()
            if self.keep is not None:
                self._file.truncate(self.keep)
            self._remember_state()

    def _begin(self, *, aside: bool) -> list[Path]:
        """Write the content to a new file and put it in place in one step. With `aside`, renames the earlier file first."""
        with files.replacing(self.path, bytes(self._content), follow=False):
            return move_aside(self.path) if aside else []

    def _open(self) -> None:
        # Unbuffered: a case is one write.
        self._file = self.path.open("ab", buffering=0)
        if self.keep is None:  # otherwise the run has locked it, before it read it
            lock_open_results(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    @property
    def environment_path(self) -> Path:
        return environment_path(self.path)

    def write(self, rows: Sequence[Row]) -> None:
        """Append the rows of a case. On a full disk none of them is written."""
        text = io.StringIO()
        csv.DictWriter(text, csv_header(self.axes), lineterminator="\n").writerows(row.cells() for row in rows)
        data = text.getvalue().encode()
        self.check(unwritten=data)
        size = len(self._content)
        with _explained(self.path, self.unwritten):
            self._unsure = data
            try:
                written = self._file.write(data)
                while written < len(data):  # the disk is full: the next write raises
                    written += self._file.write(data[written:])
                os.fsync(self._file.fileno())
                self._content += data
            except BaseException:  # also on Ctrl-C: a case is written completely or not at all
                self._file.truncate(size)
                del self._content[size:]
                raise
        self._unsure = b""
        self._remember_state()

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Replace the environment file in one step, so that it is never incomplete."""
        self._environment = json.dumps(environment, indent=2, default=str) + "\n"
        self.check()
        with _explained(self.environment_path, self.unwritten):
            self._put_environment()

    def _put_environment(self) -> None:
        with files.replacing(self.environment_path, self._environment.encode(), follow=False):
            pass

    def check(self, unwritten: bytes = b"") -> None:
        """Check that the file at `path` contains what was written, and write it again when another program has changed it.

        When that fails, all rows and `unwritten` go to a file in the folder for temporary files, and the ResultsError names
        that file.
        """
        try:
            if self._is_ours():
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            moved = self._begin(aside=os.path.lexists(self.path))
            self._file.close()
            self.keep = None
            self._open()
            self._remember_state()
            if self._environment:
                self._put_environment()
        except OSError as error:
            refuge = self._rescue(unwritten)
            raise ResultsError(f"{self.path}: cannot be written ({error.strerror or error}); {refuge}") from None
        if moved:
            what = (
                f"another program changed it during the run; the changed file is now {moved[0]}, "
                "and all rows were written again"
            )
        else:
            what = "another program removed or renamed it during the run; all rows were written again"
        self.note(f"{self.path}: {what}")

    def _remember_state(self) -> None:
        """Remember the state of the open file."""
        self._seen = _state(os.fstat(self._file.fileno()))

    def _is_ours(self) -> bool:
        try:
            state = _state(self.path.stat())
            if state == self._seen:
                return True
            found = files.read_bytes(self.path, len(self._content) + len(self._unsure))
            mine = state[:2] == self._seen[:2]
            if mine and found.startswith(self._content) and (self._content + self._unsure).startswith(found):
                self._file.truncate(len(self._content))  # a second Ctrl-C came while a case was written
            elif found != self._content:
                return False
            if not mine:  # a copy with the same content: continue with that
                self._file.close()
                self._open()
            self._remember_state()
        except OSError:  # it is gone, or is no regular file now
            return False
        return True

    def _rescue(self, unwritten: bytes) -> str:
        """Save all rows in the folder for temporary files. Returns a sentence that says where."""
        try:
            handle, name = tempfile.mkstemp(prefix=f"kbench-{self.path.stem[:80]}-", suffix=".csv")
            with os.fdopen(handle, "wb") as file:
                file.write(self._content + unwritten)
        except OSError as error:
            return f"the rows measured so far are lost; {tempfile.gettempdir()} cannot be written either ({error.strerror})"
        return f"the rows measured so far are in {name}"


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    """Properties of a file that change when it is replaced or written to."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def _explained(path: Path, consequence: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror or error}); {consequence}") from None
