"""Lock files: which devices kbench has locked the clocks of, in a file each in the user's folder for state.

The process that undoes the lock holds the file locked (flock) while it lives, and removes the file when it has undone the lock.
So a file that nobody holds is what a lost process left.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kbench import files
from kbench.results.stamps import now

_MOST_BYTES = 4096
"""How much of a lock file is read: more than kbench writes."""


@dataclass(frozen=True)
class ClockLock:
    """What a lock file says.

    pid     of the process that has set the lock and will undo it
    asked   the clock that was asked for: `base`, or a number of MHz
    since   ISO 8601
    """

    uuid: str
    pid: int
    asked: str
    since: str
    path: Path


class Held(Exception):
    """Another process has locked the clocks of the device and still lives."""

    def __init__(self, lock: ClockLock | None) -> None:
        super().__init__(f"process {lock.pid} since {lock.since}" if lock else "another process")
        self.lock = lock


def lock_folder() -> Path:
    """Where lock files are: `$XDG_STATE_HOME/kbench/clocks`, or `~/.local/state/kbench/clocks`."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        try:
            state = Path.home() / ".local" / "state"
        except RuntimeError:  # this user has no home folder
            state = Path(tempfile.gettempdir())
    return state / "kbench" / "clocks"


@contextmanager
def lock_file(uuid: str, asked: str) -> Iterator[Callable[[], None]]:
    """Hold the lock file of a device during the body, which gets a function that removes the file.

    Raises Held if another process holds it, and OSError if it cannot be written.
    """
    folder = lock_folder()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{uuid}.json"
    file = _open_locked(path, os.O_RDWR | os.O_CREAT)
    try:
        text = json.dumps({"uuid": uuid, "pid": os.getpid(), "asked": asked, "since": now()})
        os.ftruncate(file, 0)
        os.pwrite(file, text.encode(), 0)
        yield lambda: path.unlink(missing_ok=True)
    finally:
        os.close(file)


@contextmanager
def lost_locks() -> Iterator[list[ClockLock]]:
    """The locks that lost processes left. During the body no other process can set or undo them."""
    opened, found = [], []
    try:
        for path in sorted(lock_folder().glob("*.json")):
            try:
                opened.append(_open_locked(path, os.O_RDONLY))
            except (Held, OSError):  # it belongs to a process that lives, or is gone
                continue
            if lock := _read(path):
                found.append(lock)
        yield found
    finally:
        for file in opened:
            os.close(file)


def held_locks() -> list[ClockLock]:
    """The locks of processes that live."""
    found = []
    for path in sorted(lock_folder().glob("*.json")):
        try:
            os.close(_open_locked(path, os.O_RDONLY))
        except Held as held:
            found += [held.lock] if held.lock else []
        except OSError:  # it is gone
            continue
    return found


def damaged_files() -> list[Path]:
    """Files in the folder for lock files that do not say what is locked: kbench did not write them, or not to the end."""
    found = []
    for path in sorted(lock_folder().glob("*.json")):
        try:
            os.close(_open_locked(path, os.O_RDONLY))
        except (Held, FileNotFoundError):
            continue
        except OSError:  # a link or a folder, or not for this user
            found.append(path)
            continue
        if path.exists() and not _read(path):
            found.append(path)
    return found


def _open_locked(path: Path, flags: int) -> int:
    """Open and lock a file. Raises Held and OSError."""
    import fcntl  # Windows has no such module

    while True:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # root may write here, in a user's folder
                raise files.Unreadable("is not a lock file of kbench; delete it")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and os.path.samestat(found, path.stat()):
                return file
        except BlockingIOError:
            os.close(file)
            raise Held(_read(path)) from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)  # its holder has removed it meanwhile


def _read(path: Path) -> ClockLock | None:
    """What a lock file says; None for a file that kbench did not write."""
    try:
        found = json.loads(files.read_bytes(path, _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("pid"), int):
        return None
    texts = [found.get(name) for name in ("uuid", "asked", "since")]
    if not all(isinstance(text, str) for text in texts) or path.name != f"{found['uuid']}.json":
        return None
    return ClockLock(found["uuid"], found["pid"], found["asked"], found["since"], path)
