"""Makes printing safe: no text, encoding or reader can make a print end a command.

`replace_standard_streams` replaces stdout and stderr with a `Stream`. A stream writes printable lines of bounded length, in
characters that its encoding has. It drops text that it cannot write, for example to a closed pipe or a full disk, and `finish`
returns the reason.
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

PRINTED_LINE_LIMIT = 20_000
"""Limit of the characters in a printed line. A provider may print longer lines than kbench does."""

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_COLOUR_VARIABLES = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")
"""Variables that make typer and rich write colours to a file or a pipe."""

_STAND_INS = str.maketrans({
    "µ": "u", "μ": "u", "×": "x", "·": "-", "…": "...", "™": "(TM)", "®": "(R)", "©": "(C)",  # noqa: RUF001
    "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "≥": ">=", "≤": "<=", "±": "+-", "→": "->",  # noqa: RUF001
    "─": "-", "━": "-", "│": "|", "┃": "|", "╸": "-", "╺": "-", "•": "*",
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯╷╵╶╴", "+"),
})  # fmt: skip
"""Replacements for characters that an encoding lacks. All other such characters become escapes: `\\u2264`."""


class Stream(io.TextIOBase):
    """A text stream whose writes never fail. Without `inner` it drops all text.

    failure  why writing failed; None if it did not, or if there is no `inner`
    as_it_is the same stream for text with escape codes, such as kbench's progress bar
    """

    def __init__(self, inner: TextIO | None) -> None:
        self.inner = inner
        self.failure: OSError | None = None
        self.as_it_is = _AsItIs(self)
        self._lock = threading.RLock()
        self._begins = True
        if inner is not None and isinstance(inner, io.TextIOWrapper):
            inner.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        self.pass_on(self._safe(text, PRINTED_LINE_LIMIT))
        return len(text)

    def write_data(self, text: str) -> None:
        """Write text whose lines may have any length, such as an export."""
        self.pass_on(self._safe(text, None))

    def forgive_a_reader_that_has_gone(self) -> None:
        """Forget that the reader closed the pipe. The command did its work, so its exit code stays as it is."""
        if isinstance(self.failure, BrokenPipeError):
            self.failure = None

    def pass_on(self, text: str) -> None:
        """Write text without making it safe."""
        with self._lock:
            if self.inner is None or not text:
                return
            try:
                self.inner.write(self._encodable(text))
            except OSError as error:
                self._give_up(error)
            except ValueError:  # code in this process closed it
                self._give_up(OSError(errno.EBADF, os.strerror(errno.EBADF)))

    def flush(self) -> None:
        with self._lock:
            if self.inner is None:
                return
            try:
                self.inner.flush()
            except OSError as error:
                self._give_up(error)
            except ValueError:
                self._give_up(OSError(errno.EBADF, os.strerror(errno.EBADF)))

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

    def _give_up(self, error: OSError) -> None:
        """Drop all further text. Also drop the buffer, as writing it would fail again when the interpreter ends."""
        self.failure = error
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
        except (OSError, ValueError):  # it has no file descriptor
            pass
        self.inner = None

    def _safe(self, text: str, limit: int | None) -> str:
        with self._lock:
            colours = self.isatty() or any(os.environ.get(name) for name in _COLOUR_VARIABLES)
            lines = text.replace("\r\n", "\n").split("\n")
            safe = []
            for number, line in enumerate(lines):
                begins = self._begins or number > 0
                safe.append(_coloured(line, begins, limit) if colours else harmless_line(line, begins, limit))
            self._begins = (self._begins or len(lines) > 1) and not lines[-1].strip()
            return "\n".join(safe)

    def _encodable(self, text: str) -> str:
        encoding = self.encoding
        if encoding.lower().startswith("utf"):
            return text
        try:
            text.encode(encoding)
            return text
        except (UnicodeEncodeError, LookupError):
            return "".join(sign if _fits(sign, encoding) else sign.translate(_STAND_INS) for sign in text)


class _AsItIs(io.TextIOBase):
    """A stream for a library that moves the cursor. It escapes nothing."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.pass_on(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

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


def _coloured(line: str, begins: bool, limit: int | None) -> str:
    """A harmless line that keeps its colours."""
    parts = _COLOUR.split(line)
    safe = []
    for number, part in enumerate(parts):
        safe.append(part if number % 2 else harmless_line(part, begins, limit))
        begins = begins and (number % 2 == 1 or not part.strip())
    return "".join(safe)


def _fits(sign: str, encoding: str) -> bool:
    try:
        sign.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
