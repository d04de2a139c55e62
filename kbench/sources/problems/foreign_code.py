"""Runs the code of a problem and of its solutions as modules, and turns what goes wrong in it into a located fault."""

from __future__ import annotations

import builtins
import itertools
import linecache
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
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
        where = f"{name}:{error.lineno}:{error.offset}" if error.lineno else name  # a null byte has no place
        raise SourceFault(where, f"not Python: {error.msg}") from None
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


class SolutionModules(MetaPathFinder, Loader):
    """The modules of one solution, in a package of their own: another solution may have files of the same names. The code of
    the solution has an `__import__` that looks there first, also for imports inside of functions."""

    def __init__(self, file: Path, sources: Mapping[str, str]) -> None:
        self._file, self._sources = file, sources
        package = new_module(str(file))
        package.__path__ = []
        self._package = package.__name__
        sys.meta_path.insert(0, self)

    def function(self, path: str, name: str) -> Callable[..., Any]:
        """A function of one of the files. Raises SourceFault."""
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        try:
            return function_of(import_module(f"{self._package}.{module}"), name, f"{self._file}, {path}")
        except SourceFault as fault:  # without the lines that import the file: the fault names its own
            raise fault.with_traceback(None) from None

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        if package != self._package:
            return None
        if file := self._path(name):
            return spec_from_loader(fullname, self, origin=file, is_package=file.endswith("/__init__.py"))
        folder = f"{name.replace('.', '/')}/"
        is_folder = any(path.startswith(folder) for path in self._sources)
        return ModuleSpec(fullname, None, is_package=True) if is_folder else None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ and module.__spec__.origin
        path = module.__spec__.origin
        module.__file__ = f"{self._file}, {path}"
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        run_text(self._sources[path], module.__file__, module)

    def _path(self, name: str) -> str | None:
        """The file of a module or of a package."""
        stem = name.replace(".", "/")
        return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in self._sources), None)

    def _import(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level or not self._path(name):
            return builtins.__import__(name, globals, locals, fromlist, level)
        if fromlist:
            return builtins.__import__(f"{self._package}.{name}", globals, locals, fromlist)
        import_module(f"{self._package}.{name}")
        return sys.modules[f"{self._package}.{name.partition('.')[0]}"]
