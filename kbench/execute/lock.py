"""Locks: one run at a time per device, so that runs do not disturb each other, and one per results file.

The kernel releases a lock when its process ends, so a killed run never blocks the next one. A device's lock file is in the
folder for temporary files. It names the process that holds the lock and since when, and is never deleted. Containers with
separate temporary folders do not see each other's locks. The lock on a results file is on the file itself, so that two
runs meet there whatever their temporary folders are. A results file that does not exist yet has a lock file too, which is
deleted at the end, because every path has its own. On Windows there are no locks.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kbench import files
from kbench.errors import Busy
from kbench.protocol import DeviceInfo
from kbench.results.stamps import digest, now
from kbench.text.printable import NAME_LIMIT, printable

IN_USE = "is in use by"
"""What a note says of a device or a file for which the run waits."""

FILE_KEY = "file-"
"""How the name of a results file's lock begins."""

LOCK_RETRY_S = 0.05
"""How often a run that waits tries again. If flock() waited itself, a signal that arrives just before the call would have its
effect only at the end of the wait."""

HOLDER_BYTES = 4096
"""How much of a lock file is read: more than kbench writes."""


def device_key(device: DeviceInfo) -> str:
    """The name of a device's lock file. All devices of a type share one when they have no UUID."""
    return f"{device.type}-{digest(device.uuid)}" if device.uuid else device.type


def file_key(path: Path) -> str:
    """The name of a results file's lock, the same for all links to the file."""
    return f"{FILE_KEY}{digest(os.path.realpath(path))}"


@contextmanager
def acquire_lock(key: str, what: str, *, wait: bool, note: Callable[[str], None], hint: str = "") -> Iterator[None]:
    """Hold the lock of this key during the body. `what` is its name in messages.

    While another run holds it, wait after a note, which `hint` completes; without `wait`, raise Busy.
    """
    if sys.platform == "win32":
        yield
        return
    path = Path(tempfile.gettempdir()) / f"kbench-{key}.lock"
    file = None
    try:
        while file is None:
            try:
                file = _open(path)
            except OSError as error:
                name = printable(what, NAME_LIMIT)
                note(f"cannot tell whether another run uses {name} ({path}: {error.strerror}); measuring anyway")
                yield
                return
            _take(file, what, wait, note, hint)
            if key.startswith(FILE_KEY) and not _is_at(file, path):  # the other run has deleted it
                os.close(file)
                file = None
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "since": now()}).encode(), 0)
        try:
            yield
        finally:
            if key.startswith(FILE_KEY):
                with suppress(OSError):  # another user's, in a folder in which only owners delete
                    path.unlink()
    finally:
        if file is not None:
            os.close(file)


@contextmanager
def acquire_results_lock(path: Path, *, wait: bool, note: Callable[[str], None], hint: str = "") -> Iterator[None]:
    """Hold the lock on the results file at `path` during the body, if the file exists. See `acquire_lock`."""
    file = None
    try:
        while sys.platform != "win32":
            try:
                file = _open_results(path)
            except FileNotFoundError:
                break
            except OSError as error:
                note(
                    f"cannot tell whether another run writes {printable(str(path))} ({error.strerror}); writing anyway"
                )
                break
            _take(file, str(path), wait, note, hint)
            if _is_at(file, path):
                break
            os.close(file)  # the other run has replaced the file meanwhile
            file = None
        yield
    finally:
        if file is not None:
            os.close(file)


def lock_open_results(file: int) -> None:
    """Lock a results file that this process has made, until it is closed. Does nothing on a file system without locks."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # no run can lock it here; the writer notices when another run changes the file
            return


def _take(file: int, what: str, wait: bool, note: Callable[[str], None], hint: str) -> None:
    """Wait for the lock of an open file, or raise Busy. On a file system without locks, note that and go on."""
    import fcntl

    name = printable(what, NAME_LIMIT)
    waiting = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if not waiting:
                sentence = f"{name} {IN_USE} {_holder(file)}"
                if not wait:
                    raise Busy(f"{sentence}; try again when it has ended") from None
                note(f"{sentence}; waiting for it to end (Ctrl-C gives up{hint})")
            waiting = True
        except OSError as error:
            note(f"cannot tell whether another run uses {name} ({error.strerror}); measuring anyway")
            return
        time.sleep(LOCK_RETRY_S)


_FLAGS = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Opening a lock file follows no link and does not block."""


def _open(path: Path) -> int:
    """Open a lock file. Every user of the machine may lock it, because they share its devices. Raises OSError."""
    try:
        file = os.open(path, _FLAGS)
    except FileNotFoundError:
        file = os.open(path, _FLAGS | os.O_CREAT, 0o666)
        if os.fstat(file).st_uid == os.getuid():
            os.fchmod(file, 0o666)  # whatever the umask says
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(file)
        raise files.Unreadable(
            "not a lock file of kbench, because it has several hard links or is no regular file; delete that file"
        )
    return file


def _open_results(path: Path) -> int:
    """Open a results file to lock it. Raises OSError."""
    flags = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        file = os.open(path, os.O_RDWR | flags)  # a network file system needs write access to lock
    except PermissionError:
        file = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError(path)  # not a file that a run would write to
    return file


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False


def _holder(file: int) -> str:
    """Describes the process that holds the lock. Any program may have written to the file, so its content is checked."""
    try:
        found = json.loads(os.pread(file, HOLDER_BYTES, 0))
    except (OSError, ValueError, RecursionError):  # the other run has not written to it yet, or it is a results file
        return "another kbench run"
    pid, since = (found.get("pid"), found.get("since")) if isinstance(found, dict) else (None, None)
    if not isinstance(pid, int) or isinstance(pid, bool) or not 0 < pid < 2**31 or not isinstance(since, str):
        return "another kbench run"
    started_as = _command_of(pid)
    return f"process {pid} since {printable(since, 40)}{f' ({started_as})' if started_as else ''}"


def _command_of(pid: int) -> str:
    """The command line of another process; "" when the system does not show it to this user."""
    try:
        words = files.read_bytes(Path(f"/proc/{pid}/cmdline"), 1 << 16).decode("utf-8", "replace").split("\0")
    except OSError:
        return ""
    names = [number for number, word in enumerate(words) if Path(word).name == "kbench"]
    if not names:  # another program has the process id now
        return ""
    return printable(" ".join(["kbench", *words[names[0] + 1 :]]).strip(), NAME_LIMIT)
