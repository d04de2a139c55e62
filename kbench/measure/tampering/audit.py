"""What a provider looks at or starts that no kernel needs: other objects in memory, its callers, new processes, threads.

Python reports all but threads to an audit hook (PEP 578), which cannot be removed, and does nothing outside of a step. Only the
provider's own code is blamed: torch and the standard library do such things, for example to compile a function.
"""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import threading
import time
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from kbench.text.exception_text import in_library

PROCESSES = ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen")
DEEDS = {
    **dict.fromkeys(("gc.get_objects", "gc.get_referrers", "gc.get_referents"), "searched the memory of the process"),
    **dict.fromkeys(("sys._getframe", "sys._current_frames"), "inspected its callers"),
    **dict.fromkeys(PROCESSES, "started a process"),
}
"""What the events of Python mean."""

FRAMES = {"tb_frame", "gi_frame", "cr_frame"}
"""Attributes through which code reaches the frames of its callers."""

GRACE_S = 5e-5
"""How long a thread may take to come to rest after it has delivered what a call waits for."""

COMPILING = str(Path("torch", "_inductor", "compile_worker")) + os.sep

PACKAGE_FOLDER = str(Path(__file__).parents[2]) + os.sep


class Audit:
    """The hook. `deeds` are those of the running step, with the file and the line; None outside of steps."""

    def __init__(self) -> None:
        self.deeds: list[str] | None = None
        self.timed = False
        sys.addaudithook(self._note)

    def begin(self, *, timed: bool) -> None:
        """Note deeds from now on. Processes count only in timed steps: a build may start a compiler."""
        self.deeds, self.timed = [], timed

    def end(self) -> list[str]:
        deeds, self.deeds = self.deeds or [], None
        return deeds

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.deeds is None:
            return
        deed, process = DEEDS.get(event), event in PROCESSES
        if event == "object.__getattr__" and arguments[1] in FRAMES:
            deed, event = DEEDS["sys._getframe"], arguments[1]
        if deed is None or (process and not self.timed):
            return
        deeds, self.deeds = self.deeds, None  # what follows causes events too
        try:
            place = _place(sys._getframe(1), process)
            if place and (sentence := f"{deed} with {event} at {place}") not in deeds:
                deeds.append(sentence)
        finally:
            self.deeds = deeds


@cache
def the_audit() -> Audit:
    """That of this process."""
    return Audit()


def _place(frame: FrameType | None, process: bool) -> str | None:
    """`mine.py:12`, where the user's code caused the event. None if kbench or a library did, or Python itself: logging looks
    at frames, too. Frames of `inspect` do not count, and for processes no frame of Python does."""
    while frame:
        file = frame.f_code.co_filename
        passed = in_python(file) if process else file == inspect.__file__
        if not passed:
            of_library = file.startswith((PACKAGE_FOLDER, "<")) or in_library(file)
            return None if of_library else f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return None


@cache
def in_python(filename: str) -> bool:
    """Whether a file belongs to Python itself, and not to an installed package."""
    return filename.startswith((sysconfig.get_path("stdlib"), "<frozen")) and "site-packages" not in filename


def working_threads() -> dict[int, str]:
    """Other Python threads in whose innermost frame the code of somebody runs, by identifier, with their names: not those that
    wait in Python's own code, as in an idle pool, or for the processes in which torch.compile compiles."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    this_thread = threading.get_ident()
    return {
        identifier: names.get(identifier, f"thread {identifier}")
        for identifier, frame in sys._current_frames().items()
        if identifier != this_thread
        and not in_python(frame.f_code.co_filename)
        and COMPILING not in frame.f_code.co_filename
    }


def threads_left_working(before: dict[int, str]) -> str | None:
    """What to report if threads work that did not work `before` the call; None without such."""
    if not working_threads().keys() - before.keys():
        return None
    time.sleep(GRACE_S)
    late = {identifier: name for identifier, name in working_threads().items() if identifier not in before}
    return f"left work on another thread when the call returned: {', '.join(sorted(late.values()))}" if late else None
