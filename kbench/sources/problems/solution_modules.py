"""The Python files of a solution, which exist in its JSON file only, as modules that import each other."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.sources import SourceFault
from kbench.sources.problems.foreign_code import function_of, new_module, run_text


class SolutionModules:
    """The modules of one solution. Another solution may have files of the same names, so nobody else can import them: the code
    of the solution has an `__import__` of its own, also for imports inside of functions."""

    def __init__(self, file: Path, sources: Mapping[str, str]) -> None:
        self._file, self._sources = file, sources
        self._modules: dict[str, ModuleType] = {}

    def function(self, path: str, name: str) -> Callable[..., Any]:
        """A function of one of the files."""
        where = f"{self._file}, {path}"
        try:
            return function_of(self._module(path), name, where)
        except SourceFault as fault:
            raise RuntimeError(f"{fault.where}: {fault}") from fault

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
