"""The machine code of the kernels that a run has launched, in the folder `kernels` beside its results: a file for each digest.

    results/softmax.csv
    results/kernels/7af1d626bb2a.cubin    a kernel of Triton or of torch's compiler, and 7af1d626bb2a.ptx, its PTX
    results/kernels/cd9d4a2fecf4.so       an extension with the kernels that it launches

Files of the same name have the same code, so results of several runs share the folder. The digest stays the same when only
names of source files and numbers of lines change.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from kbench import files
from kbench.launches.launched_call import Kernel

CUBIN, PTX, LIBRARY = ".cubin", ".ptx", ".so"

CODE_SECTIONS = re.compile(r"\.text|\.nv\.constant|\.nv\.global\.init|\.nv_fatbin$")
"""Sections of a cubin or a library that hold machine code for a device and its constants. The others hold names of files and
numbers of lines, which change with a comment."""


def code_folder(csv: Path) -> Path:
    return csv.parent / "kernels"


def save_code(csv: Path, digest: str, source: Path) -> None:
    """Keep the machine code in a file of this machine, and the PTX beside it. Does nothing if the code is not here: a worker on
    another machine had it. Raises ResultsError if the folder cannot be written."""
    target = code_folder(csv) / f"{digest}{CUBIN if source.suffix == CUBIN else LIBRARY}"
    if target.exists() or not source.is_file() or code_digest(data := source.read_bytes()) != digest:
        return
    ptx = source.with_suffix(PTX)
    if source.suffix == CUBIN and ptx.is_file():
        files.replace(target.with_suffix(PTX), ptx.read_bytes())
    files.replace(target, data)


def find_code(csv: Path, kernel: Kernel) -> Path | None:
    """The file with the machine code of a kernel of these results: a cubin, or a shared library. None if there is none."""
    if not kernel.code.isalnum():  # the results of a stranger may hold a path
        return None
    paths = (code_folder(csv) / f"{kernel.code}{suffix}" for suffix in (CUBIN, LIBRARY))
    return next((path for path in paths if path.is_file()), None)


def code_digest(data: bytes) -> str:
    """A digest of the machine code in an ELF file; empty if there is none."""
    table = elf_table(lambda start, size: data[start : start + size])
    sections = [(name, data[offset : offset + size]) for name, offset, size in table if CODE_SECTIONS.match(name)]
    if not sections:
        return ""
    total = hashlib.sha256()
    for name, content in sorted(sections):
        total.update(f"{name} {len(content)} ".encode())
        total.update(content)
    return total.hexdigest()[:12]


_HEADER = struct.Struct("<4sBB10xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQ24x")
_WITHOUT_DATA = 8
"""The type of a section that takes no place in the file."""

Read = Callable[[int, int], bytes]
"""Reads a part of a file: from this offset, so many bytes, or fewer where the file ends."""


def elf_table(read: Read) -> Iterator[tuple[str, int, int]]:
    """The name, the offset and the size of each section, in the order of the file. Yields nothing for what is no complete
    64-bit ELF file. Reads only the tables, not the sections."""
    try:
        magic, width, order, *fields = _HEADER.unpack(read(0, _HEADER.size))
        start, size, count, names = fields[5], fields[10], fields[11], fields[12]
        if magic != b"\x7fELF" or (width, order, size) != (2, 1, _SECTION.size):
            return
        headers = list(_SECTION.iter_unpack(read(start, count * size)))
        text = read(*headers[names][4:6])
    except (struct.error, IndexError, OverflowError):
        return
    for name, kind, _, _, offset, length in headers[:count]:
        end = text.find(b"\0", name)
        if kind != _WITHOUT_DATA and end >= 0:
            yield text[name:end].decode("latin-1"), offset, length
