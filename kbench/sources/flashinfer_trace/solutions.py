"""Reads solutions: source files and how to call them. Each becomes a provider."""

from __future__ import annotations

import builtins
import functools
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kbench.contract.operator import Operator
from kbench.contract.provider import ACCELERATORS
from kbench.results.case import Case
from kbench.sources.fault import SourceFault
from kbench.sources.flashinfer_trace.definition import DefinitionFile
from kbench.sources.flashinfer_trace.located_json import JsonValue, read_json
from kbench.sources.problems.calls import as_outputs
from kbench.sources.problems.foreign_code import function_of, run_text

HOST_LANGUAGES = ("python", "pytorch")
DEVICE_LANGUAGES = ("triton", "cute_dsl", "cutile", "cudnn_frontend")
"""The languages that kbench runs: those that are called from Python and need no build."""


@dataclass(frozen=True)
class Solution:
    """A solution.

    function   the name of the function in the file `entry`
    into       whether it writes into output tensors that it is given after the inputs, and returns nothing
    """

    file: Path
    name: str
    languages: tuple[str, ...]
    entry: str
    function: str
    into: bool
    sources: Mapping[str, str]

    def unavailable(self) -> str | None:
        """Why kbench cannot run it, None if it can."""
        other = [each for each in self.languages if each not in (*HOST_LANGUAGES, *DEVICE_LANGUAGES)]
        if other:
            return f"it is written in {other[0]}; kbench runs solutions in {', '.join((*HOST_LANGUAGES, *DEVICE_LANGUAGES))}"
        return None

    @property
    def devices(self) -> tuple[str, ...] | None:
        interpreted = self.languages == ("triton",) and os.environ.get("TRITON_INTERPRET") == "1"
        return ACCELERATORS if set(self.languages) & set(DEVICE_LANGUAGES) and not interpreted else None


def read_solutions(files: Sequence[Path], definition: DefinitionFile) -> list[Solution]:
    """The solutions of a definition among JSON files. Raises SourceFault for a solution that is malformed."""
    found = []
    for file in files:
        json = read_json(file)
        if not isinstance(json.value, dict) or not {"spec", "sources"} & json.value.keys():
            continue  # some other JSON
        if json.at("definition").value == definition.name:
            found.append(_solution(json))
        elif file.parent == definition.file.parent:
            other = json.at("definition").value
            print(f"kbench: {file.name} is a solution of {other!r:.80}, not of {definition.name}", file=sys.stderr)
    return found


def _solution(json: JsonValue) -> Solution:
    spec = json.at("spec")
    spec.mapping()
    languages = tuple(each.word() for each in spec.at("languages").elements()) if "languages" in spec else ()
    sources = {source.at("path").word(): source.at("content").word() for source in _objects(json.at("sources"))}
    entry, _, function = spec.at("entry_point").word().partition("::")
    if entry not in sources or not function:
        what = f"must name one of the sources and a function in it, for example {next(iter(sources), 'main.py')}::run"
        raise spec.at("entry_point").fault(f"spec.entry_point is {spec.value['entry_point']!r:.80}; it {what}")
    into = spec.at("destination_passing_style")
    into.expect(into.value in (None, True, False), "true or false")
    return Solution(
        json.file,
        json.at("name").word(),
        languages or (spec.at("language").word(),),
        entry,
        function,
        into.value is not False,
        sources,
    )


def _objects(value: JsonValue) -> list[JsonValue]:
    for each in value.elements():
        each.mapping()
    return value.elements()


def add_provider(operator: Operator, solution: Solution, definition: DefinitionFile) -> None:
    """Register a solution. Its code runs when the provider is built, so that a fault in it costs its rows only."""
    dtypes = {name: getattr(torch, str(tensor.dtype)) for name, tensor in definition.outputs.items()}

    @operator.provider(
        solution.name,
        factory=True,
        requires=[each for each in solution.languages if each == "triton"],
        devices=solution.devices,
        available=solution.unavailable,
        sources=[solution.file],
        out=list(definition.outputs) if solution.into else (),
    )
    def build(case: Case, **values: Any) -> Callable[..., Any]:
        function = _loaded(solution.file, solution.name, solution.entry, solution.function)
        scalars = [(at, values[name]) for at, name in enumerate(definition.inputs) if name in definition.scalars]

        def call(*tensors: torch.Tensor, **buffers: torch.Tensor) -> Any:
            arguments: list[Any] = [*tensors]
            for at, value in scalars:
                arguments.insert(at, value)
            returned = function(*arguments, *buffers.values())
            return None if solution.into else as_outputs(returned, dtypes, tensors[0].device)

        return call

    _sources[solution.file, solution.name] = solution.sources


_sources: dict[tuple[Path, str], Mapping[str, str]] = {}
"""The source files of each solution of this process."""


@functools.lru_cache
def _loaded(file: Path, name: str, entry: str, function: str) -> Callable[..., Any]:
    """The function of a solution. Its files can import each other."""
    sources = _sources[file, name]
    siblings = _Siblings(sources)
    try:
        with siblings.importable():
            module = run_text(sources[entry], f"{file}, {entry}", siblings.names)
        return function_of(module, function, f"{file}, {entry}")
    except SourceFault as fault:
        raise RuntimeError(f"{fault.where}: {fault}") from fault


class _Siblings(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports the Python files of a solution, which exist in its JSON file only. Another solution may have a file of the same
    name, so nobody else finds them."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources
        self._modules: dict[str, ModuleType] = {}
        paths = [path.removesuffix(".py").removesuffix("/__init__") for path in sources if path.endswith(".py")]
        self._own = {path.replace("/", ".") for path in paths}
        self.names = {"__builtins__": {**vars(builtins), "__import__": self._import}}  # for imports inside of functions

    @contextmanager
    def importable(self) -> Iterator[None]:
        others = {name: sys.modules.pop(name) for name in self._own & sys.modules.keys()}
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            self._modules = {name: sys.modules.pop(name) for name in self._own & sys.modules.keys()}
            sys.modules.update(others)

    def _import(self, name: str, *arguments: Any, **named: Any) -> Any:
        if self in sys.meta_path:
            return builtins.__import__(name, *arguments, **named)
        with self.importable():
            return builtins.__import__(name, *arguments, **named)

    def _path(self, name: str) -> str | None:
        stem = name.replace(".", "/")
        return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in self._sources), None)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if self._path(name) else None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.names)
        super().exec_module(module)

    def is_package(self, name: str) -> bool:
        return str(self._path(name)).endswith("__init__.py")

    def get_source(self, name: str) -> str:
        return self._sources[str(self._path(name))]
