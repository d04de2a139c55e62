"""What a provider looks at or starts that no kernel needs: other objects in memory, its callers, new processes.

Python reports these to an audit hook (PEP 578). A hook cannot be removed, so there is one for the whole process, and it
does nothing outside of a step. Only the provider's own code is blamed: torch and the standard library do such things in
good faith, for example to compile a function.
"""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from kbench.text.exception_text import in_library

MEMORY = {"gc.get_objects", "gc.get_referrers", "gc.get_referents"}
CALLERS = {"sys._getframe", "sys._current_frames"}
HOOKS = {"sys.settrace", "sys.setprofile"}
PROCESSES = {"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"}
ATTRIBUTES = {"tb_frame", "gi_frame", "cr_frame"}
"""Attributes through which code reaches the frames of its callers."""

EVENTS = MEMORY | CALLERS | HOOKS | PROCESSES | {"object.__getattr__"}

PACKAGE_FOLDER = str(Path(__file__).parents[2]) + os.sep


class _Watch:
    """Receives the events of the running step. `seen` is None outside of steps."""

    def __init__(self) -> None:
        self.seen: list[str] | None = None
        self.timed = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.seen is None or event not in EVENTS:
            return
        if event == "object.__getattr__" and arguments[1] not in ATTRIBUTES:
            return
        if event in PROCESSES and not self.timed:
            return
        seen, self.seen = self.seen, None  # what follows causes events too
        try:
            if place := _place(event):
                said = f"{_deed(event, arguments)} at {place}"
                if said not in seen:
                    seen.append(said)
        finally:
            self.seen = seen


@cache
def _watch() -> _Watch:
    made = _Watch()
    sys.addaudithook(made)
    return made


def begin_watching(timed: bool) -> None:
    """Note from now on what a provider looks at. Processes count only when it is being timed: a provider may start a compiler
    when it is built."""
    watch = _watch()
    watch.seen, watch.timed = [], timed


def end_watching() -> list[str]:
    """What was noted since `begin_watching`, in words, with the file and the line."""
    watch = _watch()
    seen, watch.seen = watch.seen or [], None
    return seen


def _deed(event: str, arguments: tuple[Any, ...]) -> str:
    if event in MEMORY:
        return f"searched the memory of the process with {event}"
    if event in HOOKS:
        return f"called {event}"
    if event in PROCESSES:
        return f"started a process with {event}"
    return f"inspected its callers with {arguments[1] if event not in CALLERS else event}"


def _place(event: str) -> str | None:
    """`mine.py:12`, where the user's code caused the event. None if kbench or a library did, or Python itself: logging looks
    at frames, too. Frames of `inspect` do not count, and for processes no frame of Python does."""
    frame: FrameType | None = sys._getframe(2)
    passed = in_python if event in PROCESSES else inspect.__file__.__eq__
    while frame and passed(frame.f_code.co_filename):
        frame = frame.f_back
    if (
        frame is None
        or frame.f_code.co_filename.startswith((PACKAGE_FOLDER, "<"))
        or _installed(frame.f_code.co_filename)
    ):
        return None
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _installed(filename: str) -> bool:
    """Whether a file belongs to Python or to a package that pip has installed, also in another place than this Python's:
    `pip install --target`, or the packages of the system below a virtual environment."""
    return in_library(filename) or filename.startswith(_folders_of_pip(tuple(sys.path)))


@cache
def _folders_of_pip(search_path: tuple[str, ...]) -> tuple[str, ...]:
    found = [folder for folder in search_path if folder and any(Path(folder).glob("*.dist-info"))]
    return tuple(str(Path(folder)) + os.sep for folder in found)


@cache
def in_python(filename: str) -> bool:
    """Whether a file belongs to Python itself, and not to an installed package."""
    return filename.startswith((sysconfig.get_path("stdlib"), "<frozen")) and "site-packages" not in filename
