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
from contextlib import suppress
from typing import Any, TextIO

from kbench.text.printable import harmless_line

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_COLOUR_VARIABLES = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")
"""Variables that make typer and rich write colours to a file or a pipe."""


class Stream(io.TextIOBase):
    """A text stream on another one. Without `inner` it drops all text.

    failure  why writing failed; None if it did not, or if there is no `inner`
    as_it_is the same stream for text with escape codes, such as kbench's progress bar
    """

    def __init__(self, inner: TextIO | None) -> None:
        self.inner = inner
        self.failure: OSError | None = None
        self.as_it_is = _AsItIs(self)
        self._lock = threading.RLock()
        self._begins = True  # nothing but blanks stands on the line so far
        if isinstance(inner, io.TextIOWrapper):
            inner.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        with self._lock:
            self.pass_on(self._harmless(text))
        return len(text)

    def pass_on(self, text: str) -> None:
        """Write text as it is."""
        self._try(lambda inner: inner.write(text))

    def flush(self) -> None:
        self._try(lambda inner: inner.flush())

    def _try(self, act: Any) -> None:
        with self._lock:
            if self.inner is None:
                return
            try:
                act(self.inner)
            except OSError as error:
                self._give_up(error)
            except ValueError:  # code in this process closed it
                self._give_up(OSError(errno.EBADF, os.strerror(errno.EBADF)))

    def _give_up(self, error: OSError) -> None:
        """Drop all further text. Also drop the buffer, as writing it would fail again when the interpreter ends."""
        self.failure = error
        with suppress(OSError, ValueError):  # it has no file descriptor
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
        self.inner = None

    def forgive_a_reader_that_has_gone(self) -> None:
        """Forget that the reader closed the pipe. The command did its work, so its exit code stays as it is."""
        if isinstance(self.failure, BrokenPipeError):
            self.failure = None

    def isatty(self) -> bool:
        try:
            return self.inner is not None and self.inner.isatty()
        except ValueError:
            return False

    def fileno(self) -> int:
        if self.inner is None:
            raise io.UnsupportedOperation("fileno")
        return self.inner.fileno()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self.inner, "encoding", None) or "utf-8"

    def __getattr__(self, name: str) -> Any:
        """Attributes that a library may need, such as `buffer`."""
        return getattr(self.__dict__.get("inner"), name)

    def _harmless(self, text: str) -> str:
        colours = self.isatty() or any(os.environ.get(name) for name in _COLOUR_VARIABLES)
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


class _AsItIs(io.TextIOBase):
    """A stream for a library that moves the cursor. It escapes nothing."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.pass_on(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._stream.encoding


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
    if not isinstance(sys.stdout, Stream):
        sys.stdout = Stream(sys.stdout)
    if not isinstance(sys.stderr, Stream):
        sys.stderr = Stream(sys.stderr)


def finish() -> OSError | None:
    """Flush both streams. Returns why stdout could not be written, or None.

    A failure of stderr does not count: results are in files and on stdout.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    return getattr(sys.stdout, "failure", None)
