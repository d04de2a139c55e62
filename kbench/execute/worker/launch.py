"""Starts the process of a worker: its command line, its environment, and where it finds modules."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Protocol

# Python would look for modules in the working folder first, where a torch.py or a queue.py may lie.
BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p not in ('', '.')] + sys.argv[1:]; "
    "from kbench.measure.__main__ import START; START()"
)
COMMAND = [sys.executable, "-c", BOOT.replace("START", "main")]

TEMPLATE_COMMAND = [sys.executable, "-c", BOOT.replace("START", "template")] if sys.platform == "linux" else None
"""The command line of a template (see template.py); None where a process that has imported torch cannot be forked."""


class Process(Protocol):
    """The part of `subprocess.Popen` that all kinds of worker processes have."""

    pid: int
    returncode: int | None

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    @property
    def stderr(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float) -> int: ...

    def kill(self) -> None: ...


def spawn(environment: Mapping[str, str]) -> Process:
    """Start a worker process in the working folder, with pipes to its three streams. Raises OSError."""
    return subprocess.Popen(
        [*COMMAND, *module_folders()],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,  # Ctrl-C is for the parent, which then ends the whole group
    )


def spawn_template(command: list[str], environment: Mapping[str, str], connection: socket.socket) -> Process:
    """Start a template in the working folder, with a socket as its stdin. Raises OSError."""
    return subprocess.Popen(
        [*command, *module_folders()],
        stdin=connection.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )


def worker_environment() -> dict[str, str]:
    """The parent's environment, with a PYTHONPATH from which kbench can be imported even when it is not installed. Entries
    of PYTHONPATH that stand for the working folder are left out: see `module_folders`."""
    root = Path(__file__).resolve().parents[3]
    environment = dict(os.environ)
    parts = [part for part in _python_path() if part not in ("", ".")]
    if root.name != "site-packages":
        parts.insert(0, str(root))
    environment["PYTHONPATH"] = os.pathsep.join(parts)
    return environment


def module_folders() -> list[str]:
    """The working folder when PYTHONPATH contains `.`. The worker searches it last, so its modules shadow no others."""
    return [str(Path.cwd())] if "." in _python_path() else []


def _python_path() -> list[str]:
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)
