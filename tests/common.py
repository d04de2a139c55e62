"""Names that tests share. Fixtures are in conftest.py, which no test imports: every folder may have one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLUGINS = Path(__file__).parent / "plugins"

Kbench = Callable[..., "subprocess.CompletedProcess[str]"]


NO_FILES = ("FIFO", "device", "folder", "loop of links", "3 GB")


def make_no_file(path: Path, kind: str) -> None:
    """Put something of a kind of NO_FILES where a file is expected."""
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "3 GB":
        with path.open("wb") as sparse:
            sparse.truncate(3 << 30)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)
