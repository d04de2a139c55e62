"""The code of the kernels of a call for people to read: SASS, which is the machine code, and PTX, from which it is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kbench.launches.code_files import PTX, code_folder, find_code
from kbench.launches.launched_call import MACHINE_CODE, Kernel, LaunchedCall
from kbench.why.disassembler import dump_code
from kbench.why.instructions import ptx_of, sass_of


class Language(StrEnum):
    """What a listing is written in."""

    SASS = "SASS"
    PTX = "PTX"


@dataclass(frozen=True)
class Listing:
    """The code of a kernel.

    lines    of the listing; empty if there is none
    source   the file with the code, and for SASS the architecture
    remark   why there is no listing; "" if there is one
    """

    kernel: Kernel
    lines: tuple[str, ...] = ()
    source: str = ""
    remark: str = ""


def listings_of(call: LaunchedCall, language: Language, csv: Path) -> Iterator[Listing]:
    """The listing of each kernel of a call of these results. Raises ExecutionError."""
    for kernel in {launch.kernel.id: launch.kernel for launch in call.launches}.values():
        path = find_code(csv, kernel)
        yield _listing(kernel, path, language) if path else Listing(kernel, remark=_missing(kernel, csv))


def _listing(kernel: Kernel, path: Path, language: Language) -> Listing:
    """Raises ExecutionError if the file cannot be read."""
    if language is Language.SASS:
        architecture, sass = sass_of(dump_code(["--dump-sass", "--function", kernel.symbol], path), kernel.symbol)
        return Listing(kernel, tuple(sass), f"{path}, {architecture}")
    beside = path.with_suffix(PTX)
    text = beside.read_text(errors="replace") if beside.is_file() else dump_code(["--dump-ptx"], path)
    ptx = tuple(ptx_of(text, kernel.symbol))
    if not ptx:
        return Listing(kernel, remark=f"{path} has no PTX: it was compiled for its device only")
    return Listing(kernel, ptx, str(beside if beside.is_file() else path))


def _missing(kernel: Kernel, csv: Path) -> str:
    """Why there is no listing, and what to do."""
    if kernel.origin.startswith(MACHINE_CODE):
        return (
            f"{code_folder(csv)} has no file {kernel.code}.cubin or .so with its machine code; copy that folder here, or "
            "measure the row again"
        )
    return "kbench knows only its name: its machine code is in a large library, or was compiled in memory"
