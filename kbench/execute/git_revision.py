"""The revision of the git repository that a config lies in, without running anything that the repository asks for.

A repository's own settings can name programs: a file system monitor, hooks, filters of files, a transport for objects that
are missing. Whoever measures in a stranger's repository did not ask for these. Git is asked with all of them off, never
writes to the repository, and has a few seconds.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TIMEOUT_S = 5
"""For one question. Git takes tens of milliseconds, some seconds on a network file system."""

QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",  # the index stays as it is, and free for its user
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}

OFF = {"core.fsmonitor": "false", "core.hooksPath": os.devnull, "core.untrackedCache": "false", "core.pager": "cat"}

ANSWER_BYTES = 1 << 16


class NoAnswer(Exception):
    """Git is not there, this is no repository, it is somebody else's, or it took too long."""


def revision(folder: Path, timeout_s: float = TIMEOUT_S) -> dict[str, Any] | None:
    """`{"commit": "6e5f3a...", "dirty": True}`, where dirty is None when git could not tell; None outside a repository."""
    try:
        commit = _ask(folder, timeout_s, {}, "rev-parse", "--verify", "HEAD").strip()
    except NoAnswer:
        return None
    try:
        filters = _ask(
            folder, timeout_s, {}, "config", "--null", "--name-only", "--get-regexp", r"^filter\..*", empty=True
        )
        off = {name: "" for name in filters.split("\0") if name and not name.endswith(".required")}
        off |= {name: "false" for name in filters.split("\0") if name.endswith(".required")}
        question = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
        return {"commit": commit, "dirty": bool(_ask(folder, timeout_s, off, *question))}
    except NoAnswer:
        return {"commit": commit, "dirty": None}


def _ask(folder: Path, timeout_s: float, off: dict[str, str], *question: str, empty: bool = False) -> str:
    """The beginning of git's answer. With `empty`, exit code 1 means that there is nothing. Raises NoAnswer."""
    settings = OFF | off
    given = os.environ.get("GIT_CONFIG_COUNT", "")  # the user's own settings stay, as that of a safe directory
    first = int(given) if given.isdecimal() and len(given) < 4 else 0
    environment = os.environ | QUIET | {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (name, value) in enumerate(settings.items(), first):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    with tempfile.TemporaryFile() as answer:  # not a pipe: it is never full, and a child of git's cannot hold it open
        try:
            process = subprocess.Popen(
                ["git", "-C", str(folder), *question],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            raise NoAnswer from None
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise NoAnswer from None
        finally:
            _end(process)
        if code != 0 and not (empty and code == 1):
            raise NoAnswer
        answer.seek(0)
        return answer.read(ANSWER_BYTES).decode("utf-8", "surrogateescape")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git, if it is still there, and whatever it has started."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for a file system that does not answer
        process.wait(1)
