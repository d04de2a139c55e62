"""Files that somebody else may have made, or may be reading: bounded reads, and writes that replace a file whole.

A name is no promise. It can be a FIFO that nobody writes to, a device without an end, a link to somebody's file, or a
file of gigabytes. Every read of kbench has a limit, and no write follows a link to a temporary name.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

SOURCE_BYTES = 16 << 20
"""More than any source file that a person writes."""


class Unreadable(OSError):
    """A file that kbench does not read: not a regular file, or too long. The message says which, without the path."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.strerror = message


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file, open for reading. Whoever reads it sets a limit.

    Never blocks: a FIFO or a device is refused. Raises OSError, of which `Unreadable` says what is wrong with the file.
    """
    # O_NONBLOCK: opening a FIFO without a writer would wait for one.
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(file).st_mode
        if stat.S_ISDIR(mode):
            raise Unreadable("is a folder")
        if not stat.S_ISREG(mode):
            raise Unreadable("is not a regular file")
        with os.fdopen(file, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(file)


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises OSError as `opened` does, also for a longer one."""
    with opened(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Unreadable(f"is longer than {_size(limit)}")
    return data


def read_text(path: Path, limit: int) -> str:
    """The same as UTF-8 text. Raises OSError, and UnicodeDecodeError (a ValueError) for other bytes."""
    return read_bytes(path, limit).decode("utf-8")


@contextmanager
def replacing(path: Path, data: bytes, *, follow: bool = True) -> Iterator[None]:
    """Write `data` to a new file beside `path`, run the body, then put the new file in the place of `path`.

    A reader sees the old file or the new one, never half of it, and a full disk leaves the old one as it was. The
    temporary name is random and the file is created anew, so that nobody's file or link is written to. Where `path` is a
    link, what it points to is replaced; without `follow` the link itself. Raises OSError.
    """
    target = Path(os.path.realpath(path)) if follow and path.is_symlink() else path
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:80]}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if hasattr(os, "fchmod"):
                os.fchmod(handle, _mode(target))
            os.fsync(handle)
        yield
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def replace(path: Path, data: str | bytes) -> None:
    """Put `data` in the place of the file: all of it or, when that fails, none. Raises OSError.

    What is not a regular file (`/dev/stdout`, a FIFO that somebody reads) is written to instead of replaced.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    try:
        special = not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        special = False
    if special:
        _pour(path, content)
        return
    with replacing(path, content):
        pass


def _pour(path: Path, content: bytes) -> None:
    """Write to a device, or to a FIFO that somebody reads: one that nobody reads would be waited for."""
    handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(handle, "wb") as file:
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(handle, True)
        file.write(content)


def source_text(path: Path) -> str:
    """A source file as it may be hashed, whatever its encoding is; "" for what is no readable file of at most 16 MiB."""
    try:
        return read_bytes(path, SOURCE_BYTES).decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    except OSError:
        return ""


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file would have."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0o666 & ~_umask()


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"
