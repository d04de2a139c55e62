"""Runs the code of a problem as a module of its own, and turns what goes wrong in it into a located fault."""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.files import source_text
from kbench.sources import SourceFault
from kbench.text.exception_text import in_library, location, message

_numbers = itertools.count()


def run_file(file: Path) -> ModuleType:
    """Run a Python file as a module. It can import files of its folder: before other modules of their names while it runs, and
    after them in its functions. Raises SourceFault."""
    folder = str(file.parent)
    sys.path.insert(0, folder)
    try:
        return run_text(source_text(file), str(file))
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)


def run_text(text: str, name: str, module: ModuleType | None = None) -> ModuleType:
    """Run code as a module: a new one, or one that is given. `name` is what messages and tracebacks call it. Raises
    SourceFault."""
    module = module or new_module(name)
    # inspect and Triton read the code from there
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        code = compile(text, name, "exec")
    except SyntaxError as error:
        raise SourceFault(f"{name}:{error.lineno}:{error.offset}", f"not Python: {error.msg}") from None
    except ValueError as error:  # a null byte, before Python 3.12
        raise SourceFault(name, f"not Python: {error}") from None
    with blamed(name, "the code"):
        exec(code, vars(module))  # in a worker, which may run other people's code
    return module


def new_module(name: str) -> ModuleType:
    """An empty module for code that messages call `name`."""
    module = ModuleType(f"kbench_problem_{next(_numbers)}")
    module.__file__ = name
    sys.modules[module.__name__] = module
    return module


def function_of(module: ModuleType, name: str, file: str) -> Callable[..., Any]:
    """A function, or a class, of a module. Raises SourceFault if there is none of this name."""
    function = getattr(module, name, None)
    if not callable(function):
        raise SourceFault(file, f"`{name}` is not defined; define it at the top level")
    checked: Callable[..., Any] = function
    return checked


@contextmanager
def blamed(file: str, subject: str) -> Iterator[None]:
    """Turn whatever other people's code raises inside into a SourceFault at the line that raised it. The place is the file if a
    library raised it, and no line of the problem."""
    try:
        yield
    except SourceFault:
        raise
    except BaseException as error:  # other people's code may raise anything, SystemExit included
        where = location(error, file)
        text = f"{subject} raised {type(error).__name__}: {message(error)}"
        raise SourceFault(file if in_library(where) else where, text) from error
