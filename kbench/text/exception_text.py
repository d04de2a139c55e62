"""Describes an exception of a provider or a plug-in in one line: its message, and the line of code that raised it."""

from __future__ import annotations

import inspect
import os
import re
import sys
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import Any

from kbench.text.printable import without_colours

OURS = ("__init__.py", "contract", "kernels/cuda_", "measure", "plugins.py", "results", "sources")
"""What calls the user's code, or is called by it with the user's arguments: the beginnings of paths in kbench."""

MESSAGE_LIMIT = 300
"""The most characters of a message that are shown. What torch says of full memory is longer."""


def location(error: BaseException, fallback: str) -> str:
    """`file:line` of the innermost frame of an exception that is in the user's code, or else in a library.

    Returns `fallback` if kbench's own call failed, for example because the function does not take these arguments.
    """
    error = _in_kernel(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    ours = ("<", *_callers())
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    if not frames:
        return fallback
    of_user = [frame for frame in frames if not in_library(frame.filename)]
    innermost = (of_user or frames)[-1]
    return f"{innermost.filename}:{innermost.lineno}"


def _in_kernel(error: BaseException) -> BaseException:
    """What happened in a Triton kernel: the interpreter wraps an exception once for each function of the kernel."""
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    return error


def _callers() -> tuple[str, ...]:
    return tuple(str(Path(__file__).parents[1] / name) for name in OURS)


def in_library(filename: str) -> bool:
    """Whether a source file belongs to Python or an installed package, not to the user. The package may lie in another place
    than this Python's: `pip install --target`, or the packages of another virtual environment."""
    return filename.startswith(_library_folders(tuple(sys.path)))


@cache
def _library_folders(search_path: tuple[str, ...]) -> tuple[str, ...]:
    of_pip = [f"{folder}{os.sep}" for folder in search_path if folder and any(Path(folder).glob("*.dist-info"))]
    return *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), *of_pip


def written_at(function: Any, fallback: str = "") -> str:
    """The `file:line` that defines a function. `fallback` or its `repr` if Python does not know the place."""
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return f"{code.co_filename}:{code.co_firstlineno}" if code else fallback or repr(function)


def describe_exception(error: BaseException, fallback: str = "") -> str:
    """An exception in one line, with the place in the provider's code that raised it, or `fallback` if no such code ran."""
    error, raised_at = _in_kernel(error), location(error, fallback)
    # a place in kbench tells the user nothing
    place = "" if raised_at.startswith(_callers()) else Path(raised_at).name
    return f"{type(error).__name__}: {message(error)}" + (f" at {place}" if place else "")


def message(error: BaseException) -> str:
    """The first line of an exception's message. For the output of a compiler: the first line that contains `error:`."""
    lines = [line.strip() for line in without_colours(text_of(error)).splitlines() if line.strip()]
    if not lines:
        return "(no message)"
    # Triton: the place, the kernel's source, and last the fault
    if re.fullmatch(r"at \d+:\d+:", lines[0]):
        line = f"{lines[0]} {lines[-1]}"
    else:
        line = next((line for line in lines if re.search(r"\berror\s*:", line)), lines[0])
    return line if len(line) <= MESSAGE_LIMIT else f"{line[:MESSAGE_LIMIT]} ..."


def text_of(error: BaseException) -> str:
    """`str(error)`, or "" if the exception cannot say what it is about. That of a SyntaxError leaves out its place."""
    try:
        return str((error.msg or "") if isinstance(error, SyntaxError) else error)
    except Exception:  # noqa: BLE001  the user wrote its `__str__`, which must not end the process
        return ""
