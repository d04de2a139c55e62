"""The listings of the kernels of a call. If the files with their code are not on this machine, the provider is built again."""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kbench import files
from kbench.errors import ExecutionError, KbenchError
from kbench.launches.launched_call import Kernel, LaunchedCall
from kbench.listings.code_files import MAX_CODE_BYTES, find_code, has_machine_code, searched_folders
from kbench.listings.disassembler import dump_code
from kbench.listings.instructions import ptx_of, sass_of


class Language(StrEnum):
    """What a listing is written in."""

    SASS = "SASS"
    PTX = "PTX"


@dataclass(frozen=True)
class Listing:
    """The code of a kernel.

    lines    of the listing; empty if there is none
    source   the file with the code, and for SASS the architecture
    remark   why there is no listing, or how the code differs from that of the row; "" if there is nothing to say
    """

    kernel: Kernel
    lines: tuple[str, ...] = ()
    source: str = ""
    remark: str = ""


BuildAgain = Callable[[], LaunchedCall]


def listings_of(call: LaunchedCall | None, language: Language, build: BuildAgain) -> Iterator[Listing]:
    """The listing of each kernel of a call. `build` has the provider of the row compiled on this machine and returns what it
    launches; it may raise KbenchError. It is called at most once, if a kernel with machine code is not found.

    Raises the KbenchError of `build` if the kernels of the call are not known.
    """
    kernels = _kernels(call)
    found = {kernel.id: find_code(kernel) for kernel in kernels}
    built: dict[str, Kernel] = {}
    fault = ""
    if not kernels or any(has_machine_code(kernel) and not found[kernel.id] for kernel in kernels):
        try:
            built = {kernel.symbol: kernel for kernel in _kernels(build())}
        except KbenchError as error:
            if not kernels:
                raise
            fault = str(error)
    for kernel in kernels or built.values():
        path, remark = found.get(kernel.id), ""
        if not path and (other := built.get(kernel.symbol)):
            path = find_code(other)
            remark = _difference(kernel, other) if kernels else "the file of the row does not say which code it had"
        yield _listing(kernel, path, language, remark) if path else Listing(kernel, remark=_missing(kernel, fault))


def _kernels(call: LaunchedCall | None) -> list[Kernel]:
    """The kernels of a call, each once."""
    return list({launch.kernel.id: launch.kernel for launch in call.launches}.values()) if call else []


def _listing(kernel: Kernel, path: Path, language: Language, remark: str) -> Listing:
    """Raises ExecutionError if the file cannot be read."""
    if language is Language.SASS:
        architecture, sass = sass_of(dump_code(["--dump-sass", "--function", kernel.symbol], path), kernel.symbol)
        return Listing(kernel, tuple(sass), f"{path}, {architecture}", remark)
    beside = path.with_suffix(".ptx")
    text = _read(beside) if beside.is_file() else dump_code(["--dump-ptx"], path)
    ptx = tuple(ptx_of(text, kernel.symbol))
    if not ptx:
        return Listing(kernel, remark=f"{path} has no PTX: it was compiled for its device only")
    return Listing(kernel, ptx, str(beside if beside.is_file() else path), remark)


def _read(path: Path) -> str:
    """Raises ExecutionError."""
    try:
        return files.read_bytes(path, MAX_CODE_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ExecutionError(f"{path}: cannot be read ({error.strerror or error})") from None


def _difference(kernel: Kernel, built: Kernel) -> str:
    if kernel.code == built.code:
        return ""
    return f"this is what the provider compiles to now (code {built.code}); the row had other code ({kernel.code})"


def _missing(kernel: Kernel, fault: str) -> str:
    """Why there is no listing, and what to do."""
    if has_machine_code(kernel):
        where = ", ".join(f"{path} ({what})" for what, path in searched_folders().items())
        again = f"; the provider could not be compiled again: {fault}" if fault else ""
        return f"no file on this machine has its machine code, with the digest {kernel.code}; looked in {where}{again}"
    if (library := _torch_library()) and kernel.origin.startswith("name and torch"):
        command = shlex.join(["cuobjdump", "--dump-sass", "--function", kernel.symbol, str(library)])
        return f"kbench knows only its name. If it belongs to torch, this shows its machine code: {command}"
    return "kbench knows only its name: its machine code is in a large library, or was compiled in memory"


def _torch_library() -> Path | None:
    """The library with the kernels of torch."""
    torch = importlib.util.find_spec("torch")  # does not import it
    if not torch or not torch.origin:
        return None
    path = Path(torch.origin).parent / "lib" / "libtorch_cuda.so"
    return path if path.is_file() else None
