"""NVIDIA's program cuobjdump, which shows the code in a cubin or a library. Triton brings one along."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from kbench.errors import ExecutionError

DISASSEMBLE_LIMIT_S = 120.0

HOW_TO_GET = "pip install triton, or install the CUDA toolkit with cuobjdump and nvdisasm"


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
