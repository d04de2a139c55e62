"""Appends what calls launch to the kernels file beside a results CSV."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kbench import files
from kbench.errors import ResultsError
from kbench.launches.kernels_file import KernelsFile, kernels_path, read_kernels
from kbench.protocol import CallRecorded


class KernelsWriter:
    """Writes the file beside `csv`. With `keep` it adds to the present file; otherwise it begins a new one.

    The lines of a case are written before its rows, so that every row of the CSV finds its call. There is no file until
    there is a line to write.
    """

    def __init__(self, csv: Path, *, keep: bool) -> None:
        self.path = kernels_path(csv)
        self._content = read_kernels(csv) if keep else KernelsFile()
        self._torn = keep and _is_torn(self.path)
        self._begun = keep and self.path.exists()
        if not keep:
            with _explained(self.path):
                self.path.unlink(missing_ok=True)  # that of an earlier file, which has another name by now

    def write(self, calls: Iterable[CallRecorded], device: str) -> None:
        """Append the lines that the file does not have yet, or all of them if somebody has removed it. `device` is the name of
        the device that the calls ran on. Raises ResultsError."""
        lines: list[str] = []
        if self._begun and not self.path.exists():
            self._content, former = KernelsFile(), self._content
            for name, limits in former.devices.items():
                lines += self._content.device_lines(name, limits)
            for launched in former.calls.values():
                lines += self._content.call_lines(launched)
        for call in calls:
            lines += [*self._content.device_lines(device, call.limits), *self._content.call_lines(call.launched)]
        if not lines:
            return
        with _explained(self.path):
            self._append("".join(["\n" * self._torn, *(f"{line}\n" for line in lines)]))
        self._torn, self._begun = False, True

    def _append(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)


def _is_torn(path: Path) -> bool:
    """Whether a file ends inside a line, because a run was killed while it wrote the line."""
    try:
        with files.opened(path) as file:
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
