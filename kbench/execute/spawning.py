"""Starts the processes of workers. It imports little, so that a command can start its workers before it imports the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

COMMAND = [sys.executable, "-P", "-m", "kbench.measure"]
"""`-P`: Python would look for modules in the working folder first, where a torch.py or a queue.py may lie."""

END_LIMIT_S = 1.0
"""How long to wait for the end of a killed process."""

_ahead: list[tuple[Mapping[str, str], Path, subprocess.Popen[bytes]]] = []
"""Processes, with their environment and their folder."""


def start_ahead(count: int) -> None:
    """Start processes for the first workers, which take seconds to import torch. `end_unused` ends those that nobody takes."""
    environment = worker_environment()
    with suppress(OSError):  # `spawn` reports it
        for _ in range(count):
            _ahead.append((environment, Path.cwd(), _start(environment)))


def spawn(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A worker process in the working folder, with pipes to its three streams. Raises OSError."""
    for place, (of_process, folder, process) in enumerate(_ahead):
        if (of_process, folder) == (environment, Path.cwd()):
            del _ahead[place]
            return process
    return _start(environment)


def end_unused() -> None:
    """End the processes that were started ahead and that nobody has taken, for example because of an error in the config."""
    while _ahead:
        *_, process = _ahead.pop()
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_LIMIT_S)


def worker_environment() -> dict[str, str]:
    """The parent's environment, with a PYTHONPATH from which kbench can be imported even when it is not installed."""
    root = Path(__file__).resolve().parents[2]
    paths = ["" if root.name == "site-packages" else str(root), os.environ.get("PYTHONPATH", "")]
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def _start(environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    # A session of its own: Ctrl-C is for the parent, which then ends the whole group.
    return subprocess.Popen(COMMAND, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
