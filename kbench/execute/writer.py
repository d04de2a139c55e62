"""The files a run leaves: the CSV, appended to case by case, and the environment sidecar beside it."""

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
from kbench.execute.lock import lock_results
from kbench.results.csv_reader import MAX_BYTES
from kbench.results.environment_file import environment_path
from kbench.results.row import Row, columns


def move_aside(csv: Path) -> list[Path]:
    """Give an earlier results file and its sidecar names dated alike. Returns the new names.

    The sidecar comes first and stays where it is as well, so that a process that dies in between parts no file from its
    sidecar. Whoever puts a new file in the place of the CSV replaces the sidecar too.
    """
    beside = environment_path(csv)
    there = [path for path in (csv, beside) if os.path.lexists(path)]
    if not there:
        return []
    stamp = datetime.fromtimestamp(there[0].lstat().st_mtime).strftime("%Y%m%d-%H%M%S")
    for n in range(1000):
        targets = {path: _dated(path, f"{stamp}-{n}" if n else stamp) for path in (csv, beside)}
        if not any(map(os.path.lexists, targets.values())):
            break
    else:
        raise FileExistsError(17, "no free name to move it to", str(there[0]))
    if beside in there:
        _double(beside, targets[beside])
    if csv in there:
        csv.rename(targets[csv])
    return [targets[path] for path in there]


def _double(path: Path, target: Path) -> None:
    """Give a file a second name, or a copy where the file system knows one name alone. A link or a FIFO is moved."""
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


def probe(path: Path) -> None:
    """Make sure that results can be written at `path`, its folder included, before anything is measured or moved.

    Raises ResultsError.
    """
    try:
        if path.is_dir():
            raise ResultsError(f"{path}: is a folder where the results belong; move it away or choose another --out")
        if path.is_symlink():
            path.stat()  # a loop of links
    except FileNotFoundError:  # a link to a file that is still to be made
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
    """Appends rows to a CSV, case by case and through to the disk, so that a killed run keeps what it had measured.

    A new file takes the place of an earlier one, which is moved aside. With `keep`, the earlier file is continued after
    so many bytes of it. The writer knows what the file has to hold: where somebody removes, replaces or changes the file
    while it is written, all of it is written anew under the same name, after what stands there was moved aside, and `note`
    is told in one line. Raises ResultsError where the file system does not play along; what was written stays.
    """

    path: Path
    axes: tuple[str, ...]
    keep: int | None = None
    note: Callable[[str], None] = lambda line: None
    moved: list[Path] = field(default_factory=list)
    _content: bytearray = field(default_factory=bytearray)
    _unsure: bytes = b""
    _environment: str = ""

    def __post_init__(self) -> None:
        probe(self.path)
        with _explained(self.path, "nothing was measured"):
            if self.keep is None:
                header = io.StringIO()
                csv.writer(header, lineterminator="\n").writerow(columns(self.axes))
                self._content += header.getvalue().encode()
                self.moved = self._begin(aside=True)
            else:
                self._content += files.read_bytes(self.path, MAX_BYTES)[: self.keep]
            self._open()
            if self.keep is not None:
                self._file.truncate(self.keep)
            self._look()

    def _begin(self, *, aside: bool) -> list[Path]:
        """Put the content in the place of what is there, which is moved `aside`. It appears at once, after all that can
        fail."""
        with files.replacing(self.path, bytes(self._content), follow=False):
            return move_aside(self.path) if aside else []

    def _open(self) -> None:
        # Unbuffered: a case is one write.
        self._file = self.path.open("ab", buffering=0)
        if self.keep is None:  # else the run has locked it, before it read it
            lock_results(self._file.fileno())

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
        self.check(unwritten=data)
        size = len(self._content)
        with _explained(self.path, "what was measured before is kept, go on with --resume"):
            self._unsure = data
            try:
                written = self._file.write(data)
                while written < len(data):  # the disk has filled up: the next write says so
                    written += self._file.write(data[written:])
                os.fsync(self._file.fileno())
                self._content += data
            except BaseException:  # also Ctrl-C: a case is in the file whole or not at all
                self._file.truncate(size)
                del self._content[size:]
                raise
        self._unsure = b""
        self._look()

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Replace the sidecar in one step, so that it is never half written."""
        self._environment = json.dumps(environment, indent=2, default=str) + "\n"
        self.check()
        with _explained(self.environment_path, "what was measured before is kept"):
            self._put_environment()

    def _put_environment(self) -> None:
        with files.replacing(self.environment_path, self._environment.encode(), follow=False):
            pass

    def check(self, unwritten: bytes = b"") -> None:
        """Make sure that the file at `path` holds what was written, and put it there where somebody has changed it.

        Where that cannot be done, all rows go to a file in the folder for temporary files, `unwritten` ones included, and
        the ResultsError names it.
        """
        try:
            if self._is_ours():
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            moved = self._begin(aside=os.path.lexists(self.path))
            self._file.close()
            self.keep = None
            self._open()
            self._look()
            if self._environment:
                self._put_environment()
        except OSError as error:
            refuge = self._rescue(unwritten)
            raise ResultsError(f"{self.path}: cannot be written ({error.strerror or error}); {refuge}") from None
        if moved:
            what = f"somebody changed it during the run; their version is now {moved[0]}, and all rows are here again"
        else:
            what = "somebody removed or renamed it during the run; all rows are here again"
        self.note(f"{self.path}: {what}")

    def _look(self) -> None:
        """Remember what the file that this writer has open looks like."""
        self._seen = _stamp(os.fstat(self._file.fileno()))

    def _is_ours(self) -> bool:
        try:
            stamp = _stamp(self.path.stat())
            if stamp == self._seen:
                return True
            found = files.read_bytes(self.path, len(self._content) + len(self._unsure))
            mine = stamp[:2] == self._seen[:2]
            if mine and found.startswith(self._content) and (self._content + self._unsure).startswith(found):
                self._file.truncate(len(self._content))  # Ctrl-C twice while a case was written
            elif found != self._content:
                return False
            if not mine:  # a copy of it: go on with that
                self._file.close()
                self._open()
            self._look()
        except OSError:  # it is gone, or is something else now
            return False
        return True

    def _rescue(self, unwritten: bytes) -> str:
        """Save all rows where they can be saved, and say where that is."""
        try:
            handle, name = tempfile.mkstemp(prefix=f"kbench-{self.path.stem[:80]}-", suffix=".csv")
            with os.fdopen(handle, "wb") as file:
                file.write(self._content + unwritten)
        except OSError as error:
            return f"the rows measured so far are lost, {tempfile.gettempdir()} cannot be written either ({error.strerror})"
        return f"the rows measured so far are in {name}"


def _stamp(found: os.stat_result) -> tuple[int, int, int, int]:
    """What changes when somebody replaces a file or writes to it."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def _explained(path: Path, consequence: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror or error}); {consequence}") from None
