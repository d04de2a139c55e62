"""Writes the files of a run: the CSV, case by case, and beside it the environment file, and what calls launch with its code."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path

from kbench import files
from kbench.errors import ResultsError
from kbench.execute.environment_record import env_id
from kbench.launches.kernels_file import KernelsFile, kernels_path, read_kernels
from kbench.launches.machine_code import save_code
from kbench.protocol import CallRecorded
from kbench.results.environment import Environment, Machine, environment_path
from kbench.results.row import Row, csv_header
from kbench.results.stamps import now
from kbench.text import terminal

STAY = "the cases that were written stay"


def move_aside(csv: Path) -> list[Path]:
    """Rename an earlier results file and the files beside it, with the same date in all names. Returns the new names."""
    present = [path for path in (csv, environment_path(csv), kernels_path(csv)) if os.path.lexists(path)]
    if not present:
        return []
    date = datetime.fromtimestamp(present[0].lstat().st_mtime).strftime("%Y%m%d-%H%M%S")
    stamps = (f"{date}-{number}" if number else date for number in count())
    named = ([_dated(path, stamp) for path in present] for stamp in stamps)
    targets = next(names for names in named if not any(map(os.path.lexists, names)))
    for path, target in zip(present, targets, strict=True):
        path.rename(target)
    return targets


def _dated(path: Path, stamp: str) -> Path:
    stem, suffix = path.name.split(".", 1)
    return path.with_name(f"{stem}.{stamp}.{suffix}")


def check_writable(path: Path) -> None:
    """Check that results can be written at `path`, before anything is measured or renamed. Makes the folder.

    Raises ResultsError.
    """
    if path.is_dir():
        raise ResultsError(
            f"{path}: is a folder, but kbench writes the results file there; move it away or choose another --out"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(b"kbench")
    except (FileExistsError, NotADirectoryError):
        raise ResultsError(f"{path.parent}: is not a folder; choose another --out") from None
    except OSError as error:
        raise ResultsError(f"{path}: cannot be written ({error.strerror}); choose another --out") from None


class Writer:
    """Appends rows to a CSV, case by case, and waits until they are on the disk. A killed run keeps its finished cases.

    Call `begin` or `cut` first, then `write_environment`. `moved` are earlier files, under their new names. Raises
    ResultsError when a file cannot be written; what is on the disk stays.
    """

    def __init__(self, path: Path, axes: Iterable[str]) -> None:
        self.path = path
        self.moved: list[Path] = []
        self._header = csv_header(axes)
        self._rows: list[Row] = []
        self._environment = Environment()
        self._kernels = KernelsFile()

    def begin(self) -> Writer:
        """Begin a new file. An earlier one is renamed, with the files beside it."""
        check_writable(self.path)
        with files.writing(self.path):
            self.moved = move_aside(self.path)
        files.replace(self.path, self._whole())
        return self

    def cut(self, rows: Sequence[Row]) -> Writer:
        """Continue a file with only these rows, those of its finished cases."""
        self._rows = list(rows)
        files.replace(self.path, self._whole())
        self._kernels, kernels = read_kernels(self.path), kernels_path(self.path)
        with files.writing(kernels):
            # a run was killed while it wrote a line
            if kernels.exists() and not kernels.read_bytes().endswith(b"\n"):
                with kernels.open("a") as file:
                    file.write("\n")
        return self

    def write(self, rows: Sequence[Row], calls: Iterable[CallRecorded] = (), device: str = "") -> None:
        """Append the rows of a case. On a full disk none of them is written. What their `calls` launch on the device of this
        name is written first, so that every row of the CSV finds its call."""
        self._write_calls(list(calls), device)
        with files.writing(self.path, STAY):
            if not self.path.exists():
                files.replace(self.path, self._whole())
                terminal.note(f"{self.path}: was removed during the run; all rows were written again")
            with self.path.open("ab", buffering=0) as file:
                size = file.tell()
                try:
                    data = self._lines(rows)
                    while data:
                        data = data[file.write(data) :]
                    os.fsync(file.fileno())
                except BaseException:  # also on Ctrl-C: a case is written completely or not at all
                    file.truncate(size)
                    raise
        self._rows += rows

    def _write_calls(self, calls: Sequence[CallRecorded], device: str) -> None:
        """Append the lines that the kernels file does not have yet, and keep the machine code of the kernels."""
        lines = list[str]()
        for call in calls:
            lines += [*self._kernels.device_lines(device, call.limits), *self._kernels.call_lines(call.launched)]
        if lines:
            path = kernels_path(self.path)
            with files.writing(path, STAY), path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
        for digest, code_file in {key: file for call in calls for key, file in call.code_files.items()}.items():
            save_code(self.path, digest, Path(code_file))

    def write_environment(self, environment: Environment) -> None:
        """Replace the environment file in one step, so that it is never incomplete."""
        self._environment = environment
        files.replace(environment_path(self.path), environment.model_dump_json(indent=2, exclude_unset=True) + "\n")

    def add_machine(self, machine: Machine) -> str:
        """Make sure that the environment file describes a machine that has made rows. Returns its `env_id`."""
        name, others = env_id(machine), self._environment.environments
        if name != self._environment.env_id and name not in others:
            self._environment.environments = {**others, name: machine}
            self.write_environment(self._environment)
        return name

    def finish(self, *, interrupted: bool) -> None:
        """Write into the environment file that the run has ended."""
        self._environment.finished_at, self._environment.interrupted = now(), interrupted
        self.write_environment(self._environment)

    def _whole(self) -> bytes:
        return (",".join(self._header) + "\n").encode() + self._lines(self._rows)

    def _lines(self, rows: Iterable[Row]) -> bytes:
        text = io.StringIO()
        csv.DictWriter(text, self._header, lineterminator="\n").writerows(row.cells() for row in rows)
        return text.getvalue().encode()
