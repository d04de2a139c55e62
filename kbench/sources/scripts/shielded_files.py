"""Keeps a script from writing its own results while the times are made up.

What Python code opens for writing is written to a scratch folder instead, and read back from there. A file that the script
removes or renames stays where it is. Caches of compilers and temporary files are not touched. Code that does not open
files with Python, as `torch.save` does not, is not seen.
"""

from __future__ import annotations

import builtins
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

SYSTEM = ("/dev", "/proc", "/sys")


class Shield:
    """`folders` are the working folder and that of the script: everything below them is shielded.

    A call with `dir_fd` is left alone: its path is relative to another folder. `shutil.rmtree` makes such calls, and so a
    temporary folder can be removed.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = [folder.resolve() for folder in folders]
        # Asked for now: tempfile holds a lock while it looks for its folder, and removes a file; `remove` must not ask again.
        self._temporary = Path(tempfile.gettempdir()).resolve()
        # Made for the first copy: a script that ends its process leaves no empty folder.
        self._scratch: Path | None = None
        self._copies: dict[Path, Path | None] = {}  # None: removed
        self._open, self._replace, self._remove = builtins.open, os.replace, os.remove

    def shields(self, path: Path) -> bool:
        """Whether a file is the script's own, and not one of a cache or a device."""
        if any(path.is_relative_to(folder) for folder in self._folders):
            return not any(part.startswith((".", "__pycache__")) for part in path.parts)
        hidden = any(part.startswith(".") for part in path.parts)
        return not (hidden or path.is_relative_to(self._temporary) or str(path).startswith(SYSTEM))

    def open(self, file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        path = _path(file)
        if path is None or not isinstance(mode, str):
            return self._open(file, mode, *arguments, **named)
        if path in self._copies:
            found = self._copies[path]
            return self._open(self._copy(path) if found is None else found, mode, *arguments, **named)
        if set(mode) & set("wax+") and self.shields(path):
            copy = self._copy(path)
            if path.is_file() and "w" not in mode:
                if "x" in mode:
                    raise FileExistsError(17, "File exists", str(file))
                shutil.copyfile(path, copy)
            self._copies[path] = copy
            return self._open(copy, mode, *arguments, **named)
        return self._open(file, mode, *arguments, **named)

    def replace(self, source: Any, target: Any, **named: Any) -> None:
        at, to = _path(source), _path(target)
        if named or at is None or to is None or not (at in self._copies or self.shields(to)):
            return self._replace(source, target, **named)
        copy = self._copy(to)
        shutil.copyfile(self._copies.get(at) or at, copy)
        self._copies[to], self._copies[at] = copy, None

    def remove(self, file: Any, **named: Any) -> None:
        path = _path(file)
        if named or path is None or not (path in self._copies or self.shields(path)):
            return self._remove(file, **named)
        if self._copies.get(path, path) is None or not (path in self._copies or path.exists()):
            raise FileNotFoundError(2, "No such file or directory", str(file))
        self._copies[path] = None

    def clean(self) -> None:
        """Remove the scratch folder."""
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _copy(self, path: Path) -> Path:
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="kbench-"))
        return self._scratch / f"{len(self._copies)}-{path.name}"


@contextmanager
def shielded(*folders: Path) -> Iterator[None]:
    """Inside, files below these folders are not written, removed or renamed by Python code."""
    shield = Shield(*folders)
    with ExitStack() as stack:
        stack.callback(shield.clean)
        replaced: list[tuple[Any, str, Callable[..., Any]]] = [
            (builtins, "open", shield.open),
            (io, "open", shield.open),
            (os, "replace", shield.replace),
            (os, "rename", shield.replace),
            (os, "remove", shield.remove),
            (os, "unlink", shield.remove),
        ]
        for owner, name, function in replaced:
            stack.enter_context(patch.object(owner, name, function))
        yield


def _path(file: Any) -> Path | None:
    """The absolute path that names a file; None for a descriptor."""
    if isinstance(file, int):
        return None
    try:
        return Path(os.fsdecode(file)).absolute()
    except TypeError:
        return None
