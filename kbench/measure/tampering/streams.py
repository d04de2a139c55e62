"""The standard streams of the worker. If a provider closes one, the next file that somebody opens gets its number."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Mapping
from contextlib import suppress

STREAMS = {0: "stdin", 1: "stdout", 2: "stderr"}

_OPEN, _CLOSED, _REDIRECTED, _REPLACED = "open", "closed", "redirected", "replaced"
"""What may have become of a stream. _OPEN: it is as it was when kbench first looked."""

HIGH = 4096
"""Where copies of descriptors begin, if the process may have so many: code that closes all files stops long before it."""


class StandardStreams:
    """Remembers the files that descriptors 0, 1 and 2 stand for now, and Python's `sys.stdout` and `sys.stderr`."""

    def __init__(self) -> None:
        self._copies: dict[int, int] = {}
        self._files: dict[int, tuple[int, int] | None] = {}
        self._objects = {name: getattr(sys, name) for name in ("stdout", "stderr")}
        for number in STREAMS:
            self._files[number] = _file(number)
            with suppress(OSError):
                self._copies[number] = high_copy(number)
        weakref.finalize(self, _close, self._copies, self._files).atexit = False

    def descriptor(self, number: int) -> str:
        """What a descriptor is now: _OPEN, _CLOSED or _REDIRECTED."""
        now = _file(number)
        if now == self._files[number]:
            return _OPEN
        return _REDIRECTED if now else _CLOSED

    def put_descriptor_right(self, number: int) -> None:
        """Open the file again, from its copy, or else from that of another stream: stdout and stderr are one file in a
        worker."""
        for copy in (self._copies.get(number), *self._copies.values()):
            if copy is not None and (now := _file(copy)) is not None and now == self._files[number]:
                os.dup2(copy, number)
                return

    def object(self, name: str) -> str:
        """What `sys.stdout` or `sys.stderr` is now: _OPEN, _CLOSED or _REPLACED."""
        now = getattr(sys, name, None)
        if now is not self._objects[name]:
            return _REPLACED
        return _CLOSED if getattr(now, "closed", False) else _OPEN

    def put_object_right(self, name: str) -> None:
        """Put the object back. One that was closed for good gets a successor for the same descriptor."""
        kept = self._objects[name]
        if getattr(kept, "closed", False):
            made = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115  it stays open
            self._objects = {other: made if each is kept else each for other, each in self._objects.items()}
        setattr(sys, name, self._objects[name])

    def put_descriptors_right(self) -> list[str]:
        """Put all descriptors right. Returns the names of those that were not."""
        found = [number for number in STREAMS if self.descriptor(number) != _OPEN]
        for number in found:
            self.put_descriptor_right(number)
        return [named(number) for number in found]


def named(number: int) -> str:
    """`file descriptor 1 (stdout)`"""
    return f"file descriptor {number} ({STREAMS[number]})"


def high_copy(number: int) -> int:
    """A copy of a descriptor with a high number, which no program that is started inherits. Raises OSError."""
    if sys.platform == "win32":
        return os.dup(number)
    import fcntl
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    first = HIGH if most == resource.RLIM_INFINITY else min(HIGH, most - 16)
    try:
        return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, max(first, 3))
    except OSError:  # there is no room so high
        return os.dup(number)


def _close(copies: Mapping[int, int], files: Mapping[int, object]) -> None:
    """Close the copies that are still what they were."""
    for number, copy in copies.items():
        if _file(copy) == files[number]:
            os.close(copy)


def _file(number: int) -> tuple[int, int] | None:
    """Which file a descriptor stands for; None if it is closed."""
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino
