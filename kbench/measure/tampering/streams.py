"""The standard streams of the worker. If a provider closes one, the next file that somebody opens gets its number."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

NAMES = {0: "stdin", 1: "stdout", 2: "stderr"}


class StandardStreams:
    """Remembers the files of descriptors 0, 1 and 2, and Python's `sys.stdout` and `sys.stderr`, as they are now."""

    def __init__(self) -> None:
        self._copies: dict[int, int] = {}
        for number in NAMES:
            with suppress(OSError):  # it is closed already
                self._copies[number] = os.dup(number)
        self._objects: dict[str, TextIO] = {name: getattr(sys, name) for name in ("stdout", "stderr")}

    def __del__(self) -> None:
        for copy in self._copies.values():
            os.close(copy)

    def put_back(self) -> list[str]:
        """Open again what was closed, and undo what was redirected. Returns the names of these streams."""
        changed = []
        for number, copy in self._copies.items():
            if _file(number) != _file(copy):
                os.dup2(copy, number)
                changed.append(f"file descriptor {number} ({NAMES[number]})")
        for name, file in self._objects.items():
            if getattr(file, "closed", False):
                self._objects[name] = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
            if getattr(sys, name, None) is not self._objects[name]:
                setattr(sys, name, self._objects[name])
                changed.append(f"sys.{name}")
        return changed


def _file(number: int) -> tuple[int, int] | None:
    """Which file a descriptor stands for; None if it is closed."""
    try:
        status = os.fstat(number)
    except OSError:
        return None
    return status.st_dev, status.st_ino
