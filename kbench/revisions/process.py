"""Runs child processes with a time limit, and ends them with all that they have started."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kbench.execute.worker import kill_tree

END_LIMIT_S = 10.0
"""How long to wait for the end of a killed child, which may wait for a file system that does not answer."""

TAIL_LINES = 20

PR_SET_PDEATHSIG = 1
"""From <sys/prctl.h>: the signal that a process gets when its parent ends, also after SIGKILL."""


class Ended(NamedTuple):
    """How a child ended. `code` is None when it ran into the limit. `errors` is its stderr."""

    code: int | None
    output: str
    errors: str

    @property
    def tail(self) -> list[str]:
        """The last lines that it printed to stdout, where compilers may say what is wrong, and then the last ones to stderr."""
        return [line for text in (self.output, self.errors) for line in text.strip().splitlines()[-TAIL_LINES:]]


def run_process(command: Sequence[str] | str, folder: Path, environment: Mapping[str, str], limit_s: float) -> Ended:
    """Run a command in a folder; a command of one string is one of the shell.

    Raises OSError if the command cannot be started. If this process is interrupted, the command is ended first.
    """
    # Not pipes: a file never fills up, and no grandchild can keep it open.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            shell=isinstance(command, str),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for this process, which then ends the child
            preexec_fn=_end_with_the_parent if sys.platform == "linux" else None,
        )
        code: int | None = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(limit_s)
        finally:
            kill_tree(process.pid)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_LIMIT_S)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
        return Ended(code, *texts)


def _end_with_the_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
