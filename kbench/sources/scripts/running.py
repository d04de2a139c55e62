"""Runs a script as Python would run it: as `__main__`, with its arguments, and with its folder first in the search path."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

LAST_CHARACTERS = 2000
"""How much of what a script says on stderr is kept, to explain why it ended."""


class _Kept(io.TextIOBase):
    """Passes text on, and keeps the last of it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self.text = stream, ""

    def write(self, text: str) -> int:
        self.text = (self.text + text)[-LAST_CHARACTERS:]
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    @property
    def last_line(self) -> str:
        return next((line.strip() for line in reversed(self.text.splitlines()) if line.strip()), "")


class ScriptEnded(Exception):
    """The script ended with an exit code other than 0. The message has the code, and what the script said last."""


def run_as_main(path: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a script to its end, or until it calls `exit`. Returns its names, which live as long as this process.

    Raises whatever the script raises, and ScriptEnded.
    """
    os.environ.setdefault("MPLBACKEND", "Agg")  # a window would wait for somebody to close it
    module = ModuleType("__main__")
    module.__file__ = str(path)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    kept = _Kept(sys.stderr)
    try:
        with redirect_stderr(kept):
            exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            said = end.code if isinstance(end.code, str) else f"exit code {end.code}"
            raise ScriptEnded(f"ended with {said}{f': {kept.last_line}' * bool(kept.last_line)}") from end
    return module.__dict__
