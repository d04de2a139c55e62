"""The sections of an ELF file: machine code for NVIDIA's devices (a cubin), or a shared library that contains some."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQ")
_WITHOUT_DATA = 8
"""The type of a section that takes no place in the file."""


def elf_sections(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The name and the content of each section, in the order of the file. Yields nothing for data that is no complete 64-bit
    ELF file."""
    try:
        magic, width, order, *fields = _HEADER.unpack_from(data)
        start, size, count, names = fields[5], fields[10], fields[11], fields[12]
        if magic != b"\x7fELF" or (width, order) != (2, 1):
            return
        headers = [_SECTION.unpack_from(data, start + number * size) for number in range(count)]
        text = headers[names][4]
    except (struct.error, IndexError):
        return
    for name, kind, _, _, offset, length in headers:
        end = data.find(b"\0", text + name)
        if kind != _WITHOUT_DATA and end >= 0:
            yield data[text + name : end].decode("latin-1"), data[offset : offset + length]
