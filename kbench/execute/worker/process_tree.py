"""Ends a worker and all processes that were started in it.

A provider may start processes that leave the worker's group and session: a daemon, or a compiler that forks. On Linux
kbench finds them by an environment variable that they inherit from the worker, and by their parents. On other systems it
can end the group only.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from kbench.execute.worker.launch import Process

MARK = "KBENCH_WORKER"
"""The environment variable. Each worker has a different value."""

MARK_BYTES = 8
"""Random bytes of the value, which has two digits for each."""

SWEEP_LIMIT_S = 1.0
"""How long to look for processes that start new ones while they are being ended."""

_PROC = Path("/proc")


def end_all(process: Process, mark: str) -> None:
    """Kill the worker, its group, and on Linux all other processes started in it. Does not wait for their end."""
    strays = _strays(process.pid, mark)  # before the parents end: some are found by their parents only
    if process.returncode is None or sys.platform != "linux":  # on Linux, another process may have the id by now
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):  # a forked worker may not lead its group yet
            process.kill()
    deadline = time.monotonic() + SWEEP_LIMIT_S
    quiet = 0  # consecutive looks that found nothing; a single look can miss a process that forks and ends
    while quiet < 2 and time.monotonic() < deadline:
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        strays = _strays(None, mark)
        quiet = 0 if strays else quiet + 1


def is_stopped(process: Process) -> bool:
    """Whether a signal such as SIGSTOP has stopped the process. False when the system cannot tell."""
    if sys.platform == "linux":
        with suppress(OSError, IndexError):  # it has ended, or there is no /proc
            return _stat(str(process.pid))[0] == "T"
        return False
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def _strays(root: int | None, mark: str) -> set[int]:
    """Processes with the mark, and all descendants of them and of the root. Does not contain the root."""
    if sys.platform != "linux":
        return set()
    wanted = f"{MARK}={mark}".encode()
    found: set[int] = set()
    children: dict[int, list[int]] = {}
    try:
        since = _stat("self")[2]
        names = [entry.name for entry in _PROC.iterdir() if entry.name.isdecimal()]
    except OSError:  # there is no /proc
        return set()
    for name in names:
        pid = int(name)
        with suppress(OSError, ValueError, IndexError):  # it has ended, or belongs to another user
            state, parent, start = _stat(name)
            if pid == os.getpid() or state in "ZX" or start < since:
                continue
            children.setdefault(parent, []).append(pid)
            if wanted in (_PROC / name / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    ahead = [*found, *([root] if root else [])]
    while ahead:
        new = [pid for pid in children.get(ahead.pop(), ()) if pid not in found]
        found.update(new)
        ahead += new
    return found - {root}


def _stat(name: str) -> tuple[str, int, int]:
    """The state of a process, its parent, and its start time in clock ticks."""
    fields = (_PROC / name / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])
