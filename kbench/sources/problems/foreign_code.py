"""Runs the code of a problem and of its solutions as modules, and turns what goes wrong in it into a located fault."""

from __future__ import annotations

import builtins
import itertools
import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.files import source_text
from kbench.sources import SourceFault
from kbench.text.exception_text import in_library, location, message

_numbers = itertools.count()


def run_file(file: Path) -> ModuleType:
    """Run a Python file as a module. Its folder is first in the search path, as that of a script. Raises SourceFault."""
    sys.path.insert(0, str(file.parent))
    return run_text(source_text(file), str(file))


def run_text(text: str, name: str, module: ModuleType | None = None) -> ModuleType:
    """Run code as a module: a new one, or a given one. Messages and tracebacks call it `name`. Raises SourceFault."""
    module = module or new_module(name)
    # inspect and Triton read the code from there
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        code = compile(text, name, "exec")
    except SyntaxError as error:
        raise SourceFault(f"{name}:{error.lineno}:{error.offset}", f"not Python: {error.msg}") from None
    except ValueError as error:  # a null byte, before Python 3.12
        raise SourceFault(name, f"not Python: {error}") from None
    try:
        exec(code, vars(module))  # in a worker, which may run other people's code
    except BaseException as error:  # noqa: BLE001  it may raise anything, SystemExit included
        raise fault_of(error, name, "the code") from None
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


def fault_of(error: BaseException, file: str, subject: str) -> SourceFault:
    """What other people's code has raised, with the line that raised it. The place is the file if a library raised it, and no
    line of the problem."""
    if isinstance(error, SourceFault):
        return error
    where = location(error, file)
    text = f"{subject} raised {type(error).__name__}: {message(error)}"
    return SourceFault(file if in_library(where) else where, text)


class SolutionModules:
    """The modules of one solution. Another solution may have files of the same names, so nobody else can import them: the code
    of the solution has an `__import__` of its own, also for imports inside of functions."""

    def __init__(self, file: Path, sources: Mapping[str, str]) -> None:
        self._file, self._sources = file, sources
        self._modules: dict[str, ModuleType] = {}

    def function(self, path: str, name: str) -> Callable[..., Any]:
        """A function of one of the files. Raises SourceFault."""
        try:
            return function_of(self._module(path), name, f"{self._file}, {path}")
        except SourceFault as fault:  # without the lines that import the file: the fault names its own
            raise fault.with_traceback(None) from None

    def _module(self, path: str) -> ModuleType:
        if path not in self._modules:
            where = f"{self._file}, {path}"
            module = self._modules[path] = new_module(where)
            folder = path.rpartition("/")[0].replace("/", ".")
            names = {"__import__": self._import}
            vars(module).update(__package__=folder, __builtins__={**vars(builtins), **names})
            try:
                run_text(self._sources[path], where, module)
            except BaseException:
                del self._modules[path]
                raise
        return self._modules[path]

    def _path(self, name: str) -> str | None:
        """The file of a module or of a package."""
        stem = name.replace(".", "/")
        return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in self._sources), None)

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """As `builtins.__import__`: the module of the first part of the name, or of all of it if names are taken from it."""
        if level:
            folders = (globals or {}).get("__package__", "").split(".")
            name = ".".join(filter(None, (*folders[: len(folders) - level + 1], name)))
        parts = name.split(".")
        if not self._path(name):
            return builtins.__import__(name, globals, locals, fromlist or (), 0)
        modules: list[ModuleType] = []
        for count in range(1, len(parts) + 1):
            path = self._path(".".join(parts[:count]))
            module = self._module(path) if path else ModuleType(parts[count - 1])
            if modules:
                setattr(modules[-1], parts[count - 1], module)
            modules.append(module)
        for attribute in fromlist or ():
            path = self._path(f"{name}.{attribute}")
            if path and not hasattr(modules[-1], attribute):
                setattr(modules[-1], attribute, self._module(path))
        return modules[-1] if fromlist else modules[0]
