"""The code of the kernels of a call for people to read: SASS, which is the machine code, and PTX, from which it is made."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kbench.errors import ExecutionError
from kbench.launches.launched_call import MACHINE_CODE, Kernel, LaunchedCall
from kbench.launches.machine_code import PTX, code_folder, find_code
from kbench.why.instructions import ptx_of, sass_of

DISASSEMBLE_LIMIT_S = 120.0

HOW_TO_GET = "pip install triton, or install the CUDA toolkit with cuobjdump and nvdisasm"


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


# ---- NVIDIA's program cuobjdump, which shows the code in a cubin or a library; Triton brings one along


def find_cuobjdump() -> str | None:
    """The path of the program in the first folder that also has nvdisasm, which it needs; None if there is none."""
    for folder in _folders():
        if shutil.which("nvdisasm", path=folder) and (program := shutil.which("cuobjdump", path=folder)):
            return program
    return None


def dump_code(options: Sequence[str], path: Path) -> str:
    """What cuobjdump prints about a file. Raises ExecutionError."""
    program = find_cuobjdump()
    if not program:
        raise ExecutionError(f"cuobjdump and nvdisasm, which show machine code, are not installed; {HOW_TO_GET}")
    try:
        ended = subprocess.run(
            [program, *options, str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DISASSEMBLE_LIMIT_S,
            check=False,
        )
    except OSError as error:
        raise ExecutionError(f"{program} cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ExecutionError(f"{program} took longer than {DISASSEMBLE_LIMIT_S:g} s on {path}") from None
    if ended.returncode:
        lines = ended.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise ExecutionError(f"{program} cannot read {path}: {lines[-1]}")
    return ended.stdout.decode("utf-8", "replace")


def _folders() -> Iterator[str]:
    yield from os.environ.get("PATH", os.defpath).split(os.pathsep)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if toolkit := os.environ.get(variable):
            yield str(Path(toolkit) / "bin")
    yield "/usr/local/cuda/bin"
    triton = importlib.util.find_spec("triton")  # does not import it
    for folder in triton.submodule_search_locations or [] if triton else []:
        yield str(Path(folder) / "backends" / "nvidia" / "bin")
