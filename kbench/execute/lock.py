"""Locks: one run at a time per device, so that runs do not disturb each other, and one per results file.

The kernel releases a lock when its process ends, so a killed run never blocks the next one. The lock of a device is a file in
the folder for temporary files: containers with separate ones do not see each other's locks. The lock of a results file is a
hidden file beside it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from kbench.errors import Busy
from kbench.protocol import DeviceInfo
from kbench.results.stamps import digest, now
from kbench.text import terminal

WAIT_LIMIT_S = 86_400
"""How long to wait for another run to end. A sweep may take hours."""


def device_lock(device: DeviceInfo) -> Path:
    """The path of a device's lock. All devices of a type share one when they have no UUID."""
    key = f"{device.type}-{digest(device.uuid)}" if device.uuid else device.type
    return Path(tempfile.gettempdir()) / f"kbench-{key}.lock"


def results_lock(path: Path) -> Path:
    """The path of the lock of a results file or a folder, the same for all links to it."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.lock")


@contextmanager
def hold(path: Path, name: str, *, wait: bool) -> Iterator[None]:
    """Hold a lock during the body. `name` says in messages what is locked.

    While another run holds it, wait after a note; without `wait`, raise Busy.
    """
    lock = FileLock(path, mode=0o666)  # every user of the machine may lock a device
    try:
        _acquire(lock, path, name, wait)
    except OSError as error:
        terminal.note(f"cannot tell whether another run uses {name} ({path}: {error.strerror}); measuring anyway")
    try:
        yield
    finally:
        if lock.is_locked:
            with suppress(OSError):  # another user's, in a folder in which only owners delete
                path.unlink()
        lock.release()


def _acquire(lock: FileLock, path: Path, name: str, wait: bool) -> None:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        holder = ""  # as the file says
        with suppress(OSError):
            holder = path.read_text(errors="replace").strip()
        sentence = f"{name} is in use by {holder or 'another kbench run'}"
        if not wait:
            raise Busy(f"{sentence}; try again when it has ended") from None
        terminal.note(f"{sentence}; waiting for it to end (Ctrl-C gives up; kbench run --no-wait does not wait)")
        try:
            lock.acquire(timeout=WAIT_LIMIT_S)
        except Timeout:
            raise Busy(f"{name} was in use for a day; end the other run, or use --no-wait") from None
    with suppress(OSError):  # it only tells a run that waits who holds the lock
        path.write_text(f"process {os.getpid()} since {now()}\n")
