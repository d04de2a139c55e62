"""Measures sessions of one side: `kbench run` as a child process in the side's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from kbench import files
from kbench.errors import ExecutionError, ExitStatus, ResultsError, UsageError
from kbench.execute.lock import hold, results_lock
from kbench.execute.writer import check_writable, move_aside
from kbench.launches.code_files import code_folder
from kbench.launches.kernels_file import kernels_path
from kbench.results.environment import environment_path
from kbench.revisions.child import Ended, run_child
from kbench.revisions.edits import Edits
from kbench.revisions.repository import Repository
from kbench.revisions.side import RevisionSide, environment_of

CHILD_PROGRAM = """
import os, signal, sys, threading

def end_with_the_parent():
    os.read(0, 1)  # returns when the parent has ended, also after SIGKILL
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=end_with_the_parent, daemon=True).start()
sys.argv[0] = "kbench"
from kbench.__main__ import main
main()
"""

CHILD_ARGUMENTS = ["-P", "-c", CHILD_PROGRAM]
"""Python's arguments for a child that measures. With -P it finds modules in PYTHONPATH first, not in the working folder."""


def alone_in(out: Path, note: Callable[[str], None]) -> AbstractContextManager[None]:
    """Inside, no other `kbench ab` writes to the folder `out`. Waits for the one that does, after a note.
    Without this, a comparison would read the results of the other one."""
    return hold(results_lock(out), str(out), wait=True, note=note)


class SessionLimit(ExecutionError):
    """A session took longer than its limit."""

    def with_advice(self) -> SessionLimit:
        """The same for a first session, whose limit is the budget of the user."""
        return SessionLimit(f"{self}, which is the whole --budget; give more, or measure fewer cases")


@dataclass
class SideSessions:
    """The sessions of a side.

    side       what is measured
    folder     working folder of the child
    arguments  of `kbench run`, with the config
    scratch    folder in which the child writes its results
    csv        where the results of whole sessions are kept
    count      how many sessions were measured
    edits      of the working tree, if it is measured where it is
    """

    side: RevisionSide
    repository: Repository
    folder: Path
    arguments: Sequence[str]
    scratch: Path
    csv: Path
    count: int = 0
    edits: Edits | None = None

    def prepare(self) -> list[Path]:
        """Check that the results can be written, and move earlier ones aside. Returns their new names. Raises ResultsError."""
        check_writable(self.csv)
        moved = move_aside(self.csv)
        for beside in (environment_path(self.csv), kernels_path(self.csv)):
            beside.unlink(missing_ok=True)
        if self.side.root == self.repository.top:
            self.edits = Edits(self.repository, self.csv.parent)
        return moved

    def measure(self, limit_s: float) -> None:
        """Measure one more session. Raises UsageError, ResultsError, SessionLimit, ExecutionError and KeyboardInterrupt."""
        more = ["--append"] if self.count else []
        command = [self.side.python, *CHILD_ARGUMENTS, "run", *self.arguments, "--sessions", "1", *more, "--no-plot"]
        ended = run_child(
            [*command, "--out", str(self.scratch)],
            self.folder,
            environment_of(self.side, self.repository),
            limit_s,
            leash=True,
        )
        if ended.code not in (ExitStatus.OK, ExitStatus.FAILED):  # a failed row is a row: the comparison judges it
            self._raise(ended, limit_s)
        self.count += 1
        if self.edits:
            self.edits.look()
        self._keep()

    def _raise(self, ended: Ended, limit_s: float) -> None:
        if ended.code is None:
            raise SessionLimit(f"{self.side.name}: a session did not end within {limit_s:g} s")
        if ended.code == ExitStatus.INTERRUPTED:
            raise KeyboardInterrupt
        lines = [line.removeprefix("error: ") for line in ended.tail if line.strip()]
        errors = [line.removeprefix("error: ") for line in ended.errors.splitlines() if line.startswith("error: ")]
        said = "\n".join(f"{self.side.name}: {line}" for line in errors or lines[-1:])
        if ended.code == ExitStatus.BAD_INPUT and self.count:  # what was fine for the first session is not any more
            raise UsageError(
                f"{said}\n{self.side.name} has changed since its first session; change nothing until the command ends, and run "
                "it again"
            )
        if ended.code == ExitStatus.BAD_INPUT:
            raise UsageError(said)
        raise ExecutionError(said or f"{self.side.name}: kbench run ended with exit code {ended.code}")

    def _keep(self) -> None:
        """Copy the results of whole sessions to where the user finds them."""
        found = list(self.scratch.glob("*.csv"))
        if len(found) != 1:
            raise ResultsError(f"{self.side.name}: kbench run wrote {len(found)} results files, but should write one")
        [measured] = found
        paths = [lambda csv: csv, environment_path, kernels_path]
        for source, target in ((path(measured), path(self.csv)) for path in reversed(paths)):
            if source == kernels_path(measured) and not source.exists():
                continue  # a host, or an older kbench
            files.replace(target, source.read_bytes())
        if (code := code_folder(measured)).is_dir():
            shutil.copytree(code, code_folder(self.csv), dirs_exist_ok=True)
