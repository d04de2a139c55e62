"""Reads lines from a pipe, with a limit on the memory for each line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

CHUNK_BYTES = 1 << 16


class Refused(Exception):
    """A line that is too long, or does not begin as it must."""


def read_lines(file: int, limit: int, start: Callable[[], bytes] = bytes) -> Iterator[bytes]:
    """The lines of a file descriptor without their line breaks, until the other end is closed. An incomplete last line is
    dropped.

    Raises Refused as soon as a line has more than `limit` bytes, or does not begin with what `start` returns.
    """
    buffer = bytearray()
    searched = 0
    while chunk := _read(file):
        buffer += chunk
        while True:
            wanted = start()
            if not buffer.startswith(wanted[: len(buffer)]):
                raise Refused
            end = buffer.find(b"\n", searched)
            if end < 0:
                searched = len(buffer)
                break
            yield bytes(buffer[:end])
            del buffer[: end + 1]
            searched = 0
        if len(buffer) > limit:
            raise Refused


def read_line_starts(file: int, limit: int) -> Iterator[bytes]:
    """The first `limit` bytes of every line. The rest of a longer line is dropped."""
    buffer = b""
    too_long = False
    while chunk := _read(file):
        *whole, rest = (buffer + chunk).split(b"\n")
        for line in whole:
            if not too_long:
                yield line[:limit]
            too_long = False
        if len(rest) >= limit and not too_long:
            yield rest[:limit]
            too_long = True
        buffer = b"" if too_long else rest
    if buffer:
        yield buffer


def _read(file: int) -> bytes:
    try:
        return os.read(file, CHUNK_BYTES)
    except OSError:
        return b""  # treated as closed
