"""Finds the git revision of the folder of a config, without running programs that the repository names.

The settings of a repository can name programs: a file system monitor, hooks, filters, a transport for missing objects. A
user who measures in another person's repository did not ask for them. So kbench switches all of them off. It also lets git
write nothing, and limits its time.
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
"""Limit for one call. Git takes tens of milliseconds, and some seconds on a network file system."""

QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",  # git neither refreshes nor locks the index
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}

OFF = {"core.fsmonitor": "false", "core.hooksPath": os.devnull, "core.untrackedCache": "false", "core.pager": "cat"}

MAX_OUTPUT_BYTES = 1 << 16


class NoAnswer(Exception):
    """Git is not installed, the folder is in no repository, git does not trust its owner, or git took too long."""


def find_revision(folder: Path, timeout_s: float = TIMEOUT_S) -> dict[str, Any] | None:
    """`{"commit": "6e5f3a...", "dirty": True}`; None outside a repository. `dirty` is None when git does not answer."""
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
    """The first MAX_OUTPUT_BYTES of git's output. With `empty`, exit code 1 means no output. Raises NoAnswer."""
    settings = OFF | off
    given = os.environ.get("GIT_CONFIG_COUNT", "")  # keep the user's own settings, such as safe.directory
    first = int(given) if given.isdecimal() and len(given) < 4 else 0
    environment = os.environ | QUIET | {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (name, value) in enumerate(settings.items(), first):
        environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    with tempfile.TemporaryFile() as answer:  # not a pipe: a file never fills up, and no child of git can keep it open
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
        return answer.read(MAX_OUTPUT_BYTES).decode("utf-8", "surrogateescape")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git, if it still runs, and its children."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left
            os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # git waits for a file system that does not answer
        process.wait(1)
