"""What an exception of somebody else's code says, and where in that code it came from, in one line."""

from __future__ import annotations

import inspect
import re
import sysconfig
import traceback
from pathlib import Path
from typing import Any


def location(error: BaseException, fallback: str) -> str:
    """`file:line` of the innermost frame of an exception that is people's own code; where none is, of the innermost of a
    library. Neither is kbench's call of the code, where a function that takes no such arguments fails: see `fallback`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    callers = tuple(str(Path(__file__).parents[1] / name) for name in ("registry.py", "results", "measure"))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(("<", *callers))]
    frames = [f for f in frames if not in_library(f.filename)] or frames
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else fallback


def in_library(filename: str) -> bool:
    """Whether code is of Python or an installed package, not people's own."""
    return filename.startswith(tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


def written_at(function: Any) -> str:
    """Where a function is written, as `file:line`; its name where Python does not know."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def describe(error: BaseException, fallback: str = "") -> str:
    """An exception in one line, with the place in the provider's code it came from, or `fallback` where none of it ran."""
    place = Path(location(error, fallback))
    return f"{type(error).__name__}: {message(error)}" + (f" at {place.name}" if place.name else "")


def message(error: BaseException) -> str:
    """What an exception says in one line: its first, or that of a compiler's output which says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return "(no message)"
    if re.fullmatch(r"at \d+:\d+:", lines[0]):  # Triton: the place in the kernel, the kernel's source, the fault
        return f"{lines[0]} {lines[-1]}"[:300]
    return next((line for line in lines if re.search(r"\berror\s*:", line)), lines[0])[:300]
