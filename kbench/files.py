"""Reads files with a size limit, and replaces whole files so that no reader sees half of one.

A path may name a FIFO without a writer, an endless device, a link to another user's file, or gigabytes. So every read has a
limit, and no write follows a link to a temporary name.
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
"""Limit for source files, in bytes."""


class Unreadable(OSError):
    """A file is not a regular file, or is too long. The message says which, without the path."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.strerror = message


class TooLong(Unreadable):
    """A file is longer than the limit of its reader."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file, open for reading. The caller limits how much it reads.

    Never blocks. Raises Unreadable for a folder, a FIFO or a device, and other OSErrors.
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
    """The content of a regular file. Raises OSError as `opened` does, and TooLong for more than `limit` bytes."""
    with opened(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise TooLong(f"is longer than {_size(limit)}, which is the limit")
    return data


def read_text(path: Path, limit: int) -> str:
    """The UTF-8 text of a regular file. Raises as `read_bytes` does, and UnicodeDecodeError (a ValueError)."""
    return read_bytes(path, limit).decode("utf-8")


@contextmanager
def replacing(path: Path, data: bytes, *, follow: bool = True) -> Iterator[None]:
    """Write `data` to a new file beside `path`, run the body, then put the new file in the place of `path`.

    A reader sees the old file or the new one, never a part. A full disk leaves the old file unchanged. The temporary file
    has a random name and is always new, so no other file or link is written to. If `path` is a link, its target is
    replaced, or the link itself without `follow`. Raises OSError.
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
    """Replace the content of a file with `data`. If that fails, the file is unchanged. Raises OSError.

    A path that is not a regular file (`/dev/stdout`, a FIFO) is written to, not replaced.
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
    """Write to a device or a FIFO. Raises OSError for a FIFO without a reader, and does not wait for one."""
    handle = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(handle, "wb") as file:
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(handle, True)
        file.write(content)


def source_text(path: Path) -> str:
    """The text of a source file in any encoding, for hashing. Empty if it cannot be read or is longer than SOURCE_BYTES."""
    try:
        return read_bytes(path, SOURCE_BYTES).decode("utf-8", "surrogateescape").replace("\r\n", "\n")
    except OSError:
        return ""


def _mode(path: Path) -> int:
    """The permissions of the existing file, or those that a new file would get."""
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
