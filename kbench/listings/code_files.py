"""Finds the file on this machine that holds the machine code of a kernel, by the digest in the `.kernels.jsonl`.

Triton and torch's compiler keep each kernel that they have compiled, and torch keeps the extensions that it has built.
"""

from __future__ import annotations

import getpass
import os
import re
import sysconfig
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kbench import files
from kbench.launches.code_digest import code_digest
from kbench.launches.launched_call import MACHINE_CODE, Kernel

MAX_CODE_BYTES = 64 << 20

TRITON_NAME_CHARACTERS = 150
"""Triton cuts the names of files there."""

MOST_CANDIDATES = 10_000
"""Files of one name that are compared."""

IN_LIBRARY = f"{MACHINE_CODE} in "


def find_code(kernel: Kernel) -> Path | None:
    """The file with the machine code of a kernel: a cubin, or a shared library. None if no file here has its digest."""
    return next((path for path in islice(_candidates(kernel), MOST_CANDIDATES) if _digest(path) == kernel.code), None)


def has_machine_code(kernel: Kernel) -> bool:
    """Whether the digest of the kernel is one of machine code, which a file can have."""
    return kernel.origin.startswith(MACHINE_CODE)


def searched_folders() -> dict[str, Path]:
    """The folders that are searched, by what keeps its code there."""
    home = Path(os.environ.get("TRITON_HOME") or Path.home())
    try:
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):
        user = ""
    return {
        "Triton": Path(os.environ.get("TRITON_CACHE_DIR") or home / ".triton" / "cache"),
        "torch.compile": Path(
            os.environ.get("TORCHINDUCTOR_CACHE_DIR") or Path(tempfile.gettempdir()) / f"torchinductor_{user}"
        ),
        "extensions of torch": Path(
            os.environ.get("TORCH_EXTENSIONS_DIR") or Path.home() / ".cache" / "torch_extensions"
        ),
        "packages": Path(sysconfig.get_path("purelib")),
    }


def _candidates(kernel: Kernel) -> Iterator[Path]:
    """Files with the name that the code of the kernel has. The name comes from a file that others may have written."""
    if not has_machine_code(kernel):
        return
    where = searched_folders()
    if kernel.origin == MACHINE_CODE:
        name = f"{kernel.symbol[:TRITON_NAME_CHARACTERS]}.cubin"
        searched = [(where["Triton"], "*"), (where["torch.compile"], "triton/*/*"), (where["torch.compile"], "*")]
    else:
        name = kernel.origin.removeprefix(IN_LIBRARY)
        searched = [(where["extensions of torch"], depth) for depth in ("*", "*/*")]
        searched += [(where["packages"], depth) for depth in (".", "*")]
    if not re.fullmatch(r"[\w.$+-]+", name):
        return
    for folder, pattern in searched:
        for place in folder.glob(pattern) if pattern != "." else [folder]:
            if (found := place / name).is_file():
                yield found


def _digest(path: Path) -> str:
    try:
        return code_digest(files.read_bytes(path, MAX_CODE_BYTES))
    except OSError:
        return ""
