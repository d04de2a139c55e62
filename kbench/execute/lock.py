"""One run at a time: a lock file per device, so that two runs do not measure each other.

The kernel gives the lock up with the process that holds it: one that was killed never blocks the next. The files lie in
the folder for temporary files, are never deleted and hold who has the lock; containers with a /tmp of their own do not see
each other's. On Windows there is no lock.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kbench.results import digest, now


class Busy(Exception):
    """Another run holds what this one needs. The message says who, since when and with which command."""


def device_key(device: Mapping[str, Any]) -> str:
    """The name of a device as a worker's catalog describes it: one card, or the host where there is none."""
    return f"{device['type']}-{digest(device['uuid'])}" if device["uuid"] else str(device["type"])


def file_key(path: Path) -> str:
    return f"file-{digest(str(path.resolve()))}"


@contextmanager
def hold(key: str, what: str, *, wait: bool, note: Callable[[str], None]) -> Iterator[None]:
    """Be the only run with `key` for the length of the body. `what` is its name in messages.

    While another run holds it, wait after a note; without `wait`, raise Busy.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    path = Path(tempfile.gettempdir()) / f"kbench-{key}.lock"
    try:
        file = _open(path)
    except OSError as error:
        note(f"cannot tell whether another run uses {what}: {path}: {error.strerror}")
        yield
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sentence = f"{what} is in use by {_holder(file)}"
            if not wait:
                raise Busy(sentence) from None
            note(f"{sentence}; waiting for it to end (Ctrl-C gives up, --no-wait does not wait)")
            fcntl.flock(file, fcntl.LOCK_EX)
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "since": now(), "command": command()}).encode(), 0)
        yield
    finally:
        os.close(file)


def command() -> list[str]:
    """What started this process, as its user would write it."""
    return ["kbench", *sys.argv[1:]]


def _open(path: Path) -> int:
    """Open a lock file that every user of the machine may take: they share its devices."""
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        if os.fstat(file).st_uid == os.getuid():
            os.fchmod(file, 0o666)  # whatever the umask says
        return file


def _holder(file: int) -> str:
    try:
        found = json.loads(os.pread(file, 1 << 16, 0))
        return f"process {found['pid']} since {found['since']} ({shlex.join(found['command'])})"
    except (ValueError, KeyError):  # it has the lock but has not written yet
        return "another kbench run"
