"""The errors that kbench raises for its users, and the exit codes of the command line.

Every error's message is what the user reads: what happened, where, and what to do. Its class says which exit code the
command ends with. This module imports neither torch, pandas nor pydantic.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple


class ExitStatus(enum.IntEnum):
    """The exit codes of `kbench`."""

    OK = 0
    FAILED = 1
    """A row failed, or a comparison did not pass its gate."""
    BAD_INPUT = 2
    """An option, a config or a file cannot be used."""
    NOTHING = 3
    """Nothing could be measured or compared, or too little to decide a gate."""
    BUG = 70
    """kbench itself failed (EX_SOFTWARE of sysexits.h)."""
    INTERRUPTED = 130
    """Ctrl-C or another signal ended the run (128 + SIGINT, as in shells)."""


class KbenchError(Exception):
    """The base of kbench's errors."""

    exit_status: ClassVar[ExitStatus] = ExitStatus.BAD_INPUT


class UsageError(KbenchError):
    """An option or an argument cannot be used."""


class ResultsError(KbenchError):
    """A results file cannot be read, written or continued: `file[:line]: what is wrong; what to do`."""


@dataclass(frozen=True, order=True)
class SourceLocation:
    """A place that an error can point to: `file:line:column`, or an option of the command line as it was written."""

    source: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source


class ConfigIssue(NamedTuple):
    """One thing that is wrong with a config, and where."""

    where: SourceLocation
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {' '.join(self.message.split())}"


class ConfigError(KbenchError):
    """A config cannot be used. The message lists its issues in the order of the file, one line each."""

    def __init__(self, issues: Sequence[ConfigIssue]) -> None:
        super().__init__(issues)
        self.issues = tuple(sorted(set(issues)))

    @classmethod
    def at(cls, where: SourceLocation | str, message: str) -> ConfigError:
        """The error with one issue."""
        return cls([ConfigIssue(SourceLocation(where) if isinstance(where, str) else where, message)])

    def __str__(self) -> str:
        return "\n".join(map(str, self.issues))


class ExecutionError(KbenchError):
    """Measuring cannot begin or go on. What was measured before is kept."""

    exit_status = ExitStatus.NOTHING


class Busy(KbenchError):
    """Another run uses the device or the results file. The message says which process, and since when."""

    exit_status = ExitStatus.NOTHING


class WorkerLost(ExecutionError):
    """The worker process died, hung or lost its device. Or no worker can be started, or only one that differs from those
    before."""
