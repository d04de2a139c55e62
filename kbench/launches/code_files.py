"""The machine code of the kernels that a run has launched, in the folder `kernels` beside its results: a file for each digest.

    results/softmax.csv
    results/kernels/7af1d626bb2a.cubin    a kernel of Triton or of torch's compiler, and 7af1d626bb2a.ptx, its PTX
    results/kernels/cd9d4a2fecf4.so       an extension with the kernels that it launches

Files of the same name have the same code, so results of several runs share the folder.
"""

from __future__ import annotations

from pathlib import Path

from kbench import files
from kbench.launches.code_digest import code_digest
from kbench.launches.launched_call import Kernel

CUBIN, PTX, LIBRARY = ".cubin", ".ptx", ".so"


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
