"""A digest of the machine code in a file: it stays the same when only names of files and numbers of lines change."""

from __future__ import annotations

import hashlib
import re

from kbench.launches.elf import elf_sections

CODE_SECTIONS = re.compile(r"\.text|\.nv\.constant|\.nv\.global\.init|\.nv_fatbin$")
"""Sections of a cubin or a library that hold machine code for a device and its constants. The others hold names of files and
numbers of lines, which change with a comment."""


def code_digest(data: bytes) -> str:
    """A digest of the machine code in an ELF file; empty if there is none."""
    found = [(name, content) for name, content in elf_sections(data) if CODE_SECTIONS.match(name)]
    if not found:
        return ""
    total = hashlib.sha256()
    for name, content in sorted(found):
        total.update(f"{name} {len(content)} ".encode())
        total.update(content)
    return total.hexdigest()[:12]
