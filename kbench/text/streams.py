"""Standard streams whose writes never fail, and that show escape codes instead of obeying them.

This is the border between text and the terminal: other code prints text as it is. A stream escapes control characters, keeps
colours on a terminal, and writes no line that GitHub Actions takes for a command. It drops text that it cannot write, for
example to a closed pipe or a full disk, and `finish` returns the reason.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from kbench.text.printable import harmless_line

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


class Stream:
    """A text stream on another one, which has the attributes that it lacks.

    failure  why writing failed; None if it did not
    """

    def __init__(self, inner: TextIO, *, escapes: bool = True) -> None:
        """`escapes=False` is for a library that moves the cursor, such as that of kbench's progress bar."""
        self.inner = inner
        self.failure: OSError | None = None
        self._escapes = escapes
        self._lock = threading.RLock()
        self._begins = True  # nothing but blanks stands on the line so far
        if isinstance(inner, io.TextIOWrapper):
            inner.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        with self._lock:
            self.pass_on(self._harmless(text) if self._escapes else text)
        return len(text)

    def pass_on(self, text: str) -> None:
        """Write text as it is."""
        self._try(lambda: self.inner.write(text))

    def flush(self) -> None:
        self._try(lambda: self.inner.flush())

    def _try(self, act: Callable[[], object]) -> None:
        with self._lock:
            if self.failure:
                return
            try:
                act()
            except OSError as error:
                self._give_up(error)
            except ValueError:  # code in this process closed it
                self._give_up(OSError(errno.EBADF, os.strerror(errno.EBADF)))

    def _give_up(self, error: OSError) -> None:
        """Drop all further text, and what is in the buffer: writing it would fail again when the interpreter ends."""
        self.failure = error
        with suppress(OSError, ValueError):  # it has no file descriptor
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)

    def isatty(self) -> bool:
        return not self.inner.closed and self.inner.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def _harmless(self, text: str) -> str:
        colours = self.isatty() or bool(os.environ.get("FORCE_COLOR"))
        lines = []
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
            self._begins = self._begins or number > 0
            parts = []
            for part in _COLOUR.split(line) if colours else [line]:
                is_colour = colours and _COLOUR.fullmatch(part)
                parts.append(part if is_colour else harmless_line(part, self._begins))
                self._begins = self._begins and bool(is_colour or not part.strip())
            lines.append("".join(parts))
        return "\n".join(lines)


def replace_standard_streams() -> None:
    """Replace sys.stdout and sys.stderr with streams. A second call changes nothing.

    If the shell closed one of the first three descriptors (`>&-`), it becomes /dev/null. Otherwise the next opened file
    would get its number and receive what C code prints. A pipe that does not block (Node makes such pipes) would lose text
    when its reader is slow. It is set to block again.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number
        if descriptor and hasattr(os, "set_blocking"):
            with suppress(OSError):  # Windows: not a pipe
                os.set_blocking(descriptor, True)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, Stream):
            setattr(sys, name, Stream(stream or Path(os.devnull).open("w")))  # noqa: SIM115


def finish() -> OSError | None:
    """Flush both streams. Returns why stdout could not be written, or None.

    A failure of stderr does not count: results are in files and on stdout.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    return getattr(sys.stdout, "failure", None)
