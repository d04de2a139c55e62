"""Ends a worker and everything that was started in it.

A provider may start processes that leave the worker's group and session (a daemon, a compiler that forks). On Linux they
are found by a variable that the worker's environment carries and its children inherit, and by who their parents are.
Elsewhere the group is what can be ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

MARK = "KBENCH_WORKER"
"""The variable. Its value is another one for every worker."""

SWEEP_LIMIT_S = 1.0
"""How long to go on looking for processes that start others faster than they are ended."""

PROC = Path("/proc")


def end(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill the worker, its group, and on Linux whatever else was started in it. Does not wait for them to be gone."""
    strays = _strays(process.pid, mark)  # first: those without the mark are known by their parents only
    with suppress(ProcessLookupError, PermissionError):  # it is gone already
        if not hasattr(os, "killpg"):
            process.kill()
        elif process.returncode is None or sys.platform != "linux":  # the number of one that has ended may be another's
            os.killpg(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + SWEEP_LIMIT_S
    quiet = 0  # looks that have found nothing: one may miss what starts another process and ends meanwhile
    while quiet < 2 and time.monotonic() < deadline:
        for pid in strays:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        strays = _strays(None, mark)
        quiet = 0 if strays else quiet + 1


def stopped(process: subprocess.Popen[bytes]) -> bool:
    """Whether a signal such as SIGSTOP holds the process. False where the system cannot tell."""
    if not hasattr(os, "waitid"):
        return False
    try:
        return os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False


def _strays(root: int | None, mark: str) -> set[int]:
    """Processes that carry the mark, and the descendants of the root and of those. The root is not among them."""
    if sys.platform != "linux":
        return set()
    wanted = f"{MARK}={mark}".encode()
    found: set[int] = set()
    children: dict[int, list[int]] = {}
    try:
        since = _stat("self")[2]
        names = [entry.name for entry in PROC.iterdir() if entry.name.isdecimal()]
    except OSError:  # /proc is not there
        return set()
    for name in names:
        pid = int(name)
        with suppress(OSError, ValueError, IndexError):  # it has ended, or is another user's
            state, parent, start = _stat(name)
            if pid == os.getpid() or state in "ZX" or start < since:
                continue
            children.setdefault(parent, []).append(pid)
            if wanted in (PROC / name / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    ahead = [*found, *([root] if root else [])]
    while ahead:
        new = [pid for pid in children.get(ahead.pop(), ()) if pid not in found]
        found.update(new)
        ahead += new
    return found - {root}


def _stat(name: str) -> tuple[str, int, int]:
    """A process's state, its parent, and when it has started."""
    fields = (PROC / name / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[1]), int(fields[19])
