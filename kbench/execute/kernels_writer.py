"""Appends what calls launch to the kernels file beside a results CSV."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kbench.errors import ResultsError
from kbench.launches.code_files import code_folder, save_code
from kbench.launches.kernels_file import KernelsFile, kernels_path, read_kernels
from kbench.protocol import CallRecorded


class KernelsWriter:
    """Writes the file beside `csv`. With `keep` it adds to the present file; otherwise it begins a new one.

    The lines of a case are written before its rows, so that every row of the CSV finds its call. There is no file until
    there is a line to write.
    """

    def __init__(self, csv: Path, *, keep: bool) -> None:
        self._csv, self.path = csv, kernels_path(csv)
        self._content = read_kernels(csv) if keep else KernelsFile()
        self._torn = keep and _is_torn(self.path)
        if not keep:
            with _explained(self.path):
                self.path.unlink(missing_ok=True)  # that of an earlier file, which has another name by now

    def write(self, calls: Iterable[CallRecorded], device: str) -> None:
        """Append the lines that the file does not have yet, and keep the machine code of the kernels. `device` is the name of
        the device that the calls ran on. Raises ResultsError."""
        calls, lines = list(calls), list[str]()
        for call in calls:
            lines += [*self._content.device_lines(device, call.limits), *self._content.call_lines(call.launched)]
        if lines:
            with _explained(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write("".join(["\n" * self._torn, *(f"{line}\n" for line in lines)]))
            self._torn = False
        with _explained(code_folder(self._csv)):
            for digest, path in {key: path for call in calls for key, path in call.code_files.items()}.items():
                save_code(self._csv, digest, Path(path))


def _is_torn(path: Path) -> bool:
    """Whether a file ends inside a line, because a run was killed while it wrote the line."""
    try:
        with path.open("rb") as file:
            return file.seek(0, os.SEEK_END) > 0 and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n"
    except OSError:
        return False


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = f"cannot be written ({error.strerror}); the rows measured so far are kept; continue with --resume"
        raise ResultsError(f"{path}: {why}") from None
