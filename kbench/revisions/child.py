"""Runs child processes with a time limit, and ends them with all that they started in their group."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CHILD_END_LIMIT_S = 10.0
"""How long a child may take to end after SIGTERM. Then it is killed."""

MAX_READ_BYTES = 16 << 20
"""How much of a child's output is read, from its end."""

TAIL_LINES = 20


class Ended(NamedTuple):
    """How a child ended. `code` is None when it ran into the limit. `errors` is its stderr."""

    code: int | None
    output: str
    errors: str

    @property
    def tail(self) -> list[str]:
        """The last lines that it printed: of stderr if it printed any there, else of stdout."""
        return (self.errors.strip() or self.output.strip()).splitlines()[-TAIL_LINES:]


def run_child(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], limit_s: float, *, leash: bool = False
) -> Ended:
    """Run a command in a folder. With `leash`, its stdin is a pipe that closes when this process ends, however it ends.

    Raises OSError if the command cannot be started. If this process is interrupted, the command is ended first.
    """
    # Not pipes: a file never fills up, and no grandchild can keep it open.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE if leash else subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for this process, which then ends the child
        )
        code: int | None = None
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end(process)
        return Ended(code, *(_text(file.fileno()) for file in (output, errors)))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the child if it still runs, and what is left of its group."""
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(CHILD_END_LIMIT_S)
    if os.name == "posix":
        _signal(process, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    with suppress(subprocess.TimeoutExpired):  # it waits for a file system that does not answer
        process.wait(CHILD_END_LIMIT_S)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # nothing is left
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _text(file: int) -> str:
    start = max(os.fstat(file).st_size - MAX_READ_BYTES, 0)
    os.lseek(file, start, os.SEEK_SET)
    found = b""
    while part := os.read(file, 1 << 20):
        found += part
    return found.decode("utf-8", "surrogateescape")
