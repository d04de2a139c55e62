"""Measures sessions of one side: `kbench run` as a child process in the side's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kbench import files
from kbench.errors import ExecutionError, ExitStatus, ResultsError, UsageError
from kbench.execute.writer import move_aside
from kbench.launches.kernels_file import kernels_path
from kbench.launches.machine_code import code_folder
from kbench.results.environment import environment_path
from kbench.revisions import process
from kbench.revisions.process import Ended
from kbench.revisions.repository import Repository
from kbench.revisions.side import RevisionSide, environment_of

KBENCH = ["-P", "-m", "kbench"]
"""Python's arguments for a child that measures. With -P it finds modules in PYTHONPATH first, not in the working folder."""


class SessionLimit(ExecutionError):
    """A session took longer than its limit."""


@dataclass
class SideSessions:
    """The sessions of a side.

    folder     working folder of the child
    arguments  of `kbench run`, with the config
    csv        where the results of whole sessions are kept
    count      how many sessions were measured
    """

    side: RevisionSide
    repository: Repository
    folder: Path
    arguments: Sequence[str]
    csv: Path
    note: Callable[[str], None]
    count: int = 0

    def measure(self, limit_s: float) -> None:
        """Measure one more session. Raises UsageError, ResultsError, SessionLimit, ExecutionError and KeyboardInterrupt."""
        scratch = self.side.root.with_name(f"results-{self.side.label}")
        more = ["--append"] if self.count else []
        command = [self.side.python, *KBENCH, "run", *self.arguments, "--sessions", "1", *more, "--no-plot"]
        environment = environment_of(self.side, self.repository)
        ended = process.run_process([*command, "--out", str(scratch)], self.folder, environment, limit_s)
        if ended.code not in (ExitStatus.OK, ExitStatus.FAILED):  # a failed row is a row: the comparison judges it
            self._raise(ended, limit_s)
        self.count += 1
        self._keep(scratch)

    def _raise(self, ended: Ended, limit_s: float) -> None:
        if ended.code is None:
            raise SessionLimit(f"{self.side.name}: a session did not end within {limit_s:g} s, the whole --budget")
        if ended.code == ExitStatus.INTERRUPTED:
            raise KeyboardInterrupt
        errors = [line.removeprefix("error: ") for line in ended.errors.splitlines() if line.startswith("error: ")]
        message = "\n".join(f"{self.side.name}: {line}" for line in errors or ended.tail[-1:])
        if ended.code == ExitStatus.BAD_INPUT:
            raise UsageError(message)
        raise ExecutionError(message or f"{self.side.name}: kbench run ended with exit code {ended.code}")

    def _keep(self, scratch: Path) -> None:
        """Copy the results of whole sessions to where the user finds them. Earlier results there are moved aside."""
        if self.count == 1:
            for earlier in move_aside(self.csv):
                self.note(f"the earlier results were moved to {earlier}")
        [measured, *others] = scratch.glob("*.csv")
        if others:
            raise ResultsError(
                f"{self.side.name}: kbench run wrote {1 + len(others)} results files, but should write one"
            )
        targets = {
            kernels_path(measured): kernels_path(self.csv),  # a host has none
            environment_path(measured): environment_path(self.csv),
            measured: self.csv,
        }
        for source, target in targets.items():
            if source.exists():
                files.replace(target, source.read_bytes())
        if (code := code_folder(measured)).is_dir():
            shutil.copytree(code, code_folder(self.csv), dirs_exist_ok=True)
