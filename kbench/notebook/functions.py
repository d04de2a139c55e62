"""A function from a notebook or a script as a plug-in file that a worker imports.

The worker is another process and sees nothing of the notebook. So the file holds the function's own source, and that of all
it uses: modules and what they define are imported by name, functions and classes of the notebook are copied, numbers, text
and collections of them are written out. Anything else is refused, with its name: a tensor or a model that was left behind
in the notebook would not be what is measured.
"""

from __future__ import annotations

import ast
import dis
import importlib.util
import inspect
import re
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from kbench.errors import ConfigError, ConfigIssue, SourceLocation

Functions = Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]]

ALLOWED = "modules, functions, classes, numbers, text, and lists, tuples and dicts of them"


def by_name(functions: Functions) -> dict[str, Callable[..., Any]]:
    """Functions by the names of their providers. A list gives each function its own name. Raises ConfigError."""
    if isinstance(functions, Mapping):
        return dict(functions)
    if callable(functions):
        raise _error(getattr(functions, "__name__", repr(functions)), "put the function into a list: [function]")
    found: dict[str, Callable[..., Any]] = {}
    for function in functions:
        name = getattr(function, "__name__", repr(function))
        if name in found:
            raise _error(name, "two functions have this name; pass them as {name: function}")
        found[name] = function
    return found


def write_plugins(functions: Functions, operator: str, folder: Path) -> list[Path]:
    """Write a plug-in file for each function into `folder`. It registers the function with the operator. Raises ConfigError."""
    paths: list[Path] = []
    for name, function in by_name(functions).items():
        path = folder / f"{re.sub(r'[^0-9A-Za-z_]+', '_', name) or 'provider'}_{len(paths)}.py"
        path.write_text(source(name, function, operator), encoding="utf-8")
        paths.append(path)
    return paths


def source(name: str, function: Callable[..., Any], operator: str) -> str:
    """The text of a module that registers a function as a provider. Raises ConfigError."""
    if not inspect.isfunction(inspect.unwrap(function)):
        raise _error(name, f"is not a function (its type is {type(function).__name__}); write a def that calls it")
    module = _Module(name)
    own = module.add(function.__name__, function)
    return "\n".join(
        [
            f'"""The provider {name!r}, as kbench.run was given it."""',
            *module.lines,
            "import kbench as _kbench",
            f"_operator = _kbench.operator({operator!r})",
            f"if {name!r} not in _operator.providers:  # else its own decorator has registered it",
            f"    _operator.provider({name!r})({own})",
            "",
        ]
    )


class _Module:
    """The lines of a plug-in file. Everything that a function needs comes before it."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self.lines: list[str] = []
        self._known: dict[str, Any] = {}

    def add(self, name: str, value: Any) -> str:
        """Add lines that make `name` mean `value`. Returns the name. Raises ConfigError for a value that a file cannot hold."""
        if name in self._known:
            if self._known[name] is not value and not _same(self._known[name], value):
                raise _error(self.provider, f"its code uses the name {name} for two different objects; rename one")
            return name
        self._known[name] = value
        if isinstance(value, ModuleType):
            self._import(value.__name__, f"import {value.__name__} as {name}")
        elif (place := _importable(value)) is not None:
            self._import(place[0], f"from {place[0]} import {place[1]} as {name}")
        elif (literal := _literal(value)) is not None:
            self.lines += [*literal[:-1], f"{name} = {literal[-1]}"]
        elif callable(value) and hasattr(value, "__name__"):
            self._define(name, value)
        else:
            raise _error(
                self.provider,
                f"it uses {name}, a {type(value).__name__}, which kbench cannot write to a file. "
                f"Create {name} inside the function, or use only {ALLOWED}",
            )
        return name

    def _import(self, module: str, line: str) -> None:
        """Add an import. A module that is not installed also needs a line that adds its folder to the path."""
        loaded = sys.modules.get(module.partition(".")[0])
        file = getattr(loaded, "__file__", None)
        if file and not _installed(Path(file)):
            path = Path(file).resolve()
            folder = path.parents[1] if path.stem == "__init__" else path.parent
            self.lines.append(f"import sys as _sys; _sys.path.append({str(folder)!r})")
        self.lines.append(line)

    def _define(self, name: str, value: Any) -> None:
        """Add the source of a function or a class, after everything that it uses."""
        plain = inspect.unwrap(getattr(value, "fn", value))  # Triton's JITFunction keeps its function there
        try:
            text = textwrap.dedent(inspect.getsource(plain)).rstrip()
            tree = ast.parse(text).body[0]
        except (OSError, TypeError, SyntaxError):
            raise _error(
                self.provider, f"the source of {name} cannot be read; define it with def in a cell or a file"
            ) from None
        if not isinstance(tree, (ast.FunctionDef, ast.ClassDef)):
            raise _error(self.provider, f"{name} is a lambda; define it with def")
        if plain is not value and not tree.decorator_list:
            raise _error(
                self.provider,
                f"{name} was wrapped after its definition; put the decorator above its def, or write a def that calls the "
                "wrapped function",
            )
        for used in dict.fromkeys(_names(plain, tree)):
            found, meaning = _look_up(plain, used)
            if found and meaning is not value and used.isidentifier():  # pytest's own names are none
                self.add(used, meaning)
        self.lines += ["", "", text, ""]
        if tree.name != name:
            self.lines.append(f"{name} = {tree.name}")


def _names(plain: Any, tree: ast.FunctionDef | ast.ClassDef) -> Iterator[str]:
    """The names from outside that a definition reads, in its body and in its decorators, defaults and annotations."""
    if isinstance(tree, ast.ClassDef):
        yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
        return
    yield from _globals(plain.__code__)
    yield from plain.__code__.co_freevars
    arguments = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs, tree.args.vararg, tree.args.kwarg]
    annotations = [argument.annotation for argument in arguments if argument]
    made = [*tree.decorator_list, *tree.args.defaults, *tree.args.kw_defaults, *annotations, tree.returns]
    for node in made:
        yield from (part.id for part in ast.walk(node) if isinstance(part, ast.Name)) if node else ()


def _globals(code: CodeType) -> Iterator[str]:
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _look_up(plain: Any, name: str) -> tuple[bool, Any]:
    """Whether a name is defined outside a function or the methods of a class, and its value. False for built-in names."""
    if inspect.isclass(plain):
        found = [_look_up(method, name) for method in vars(plain).values() if inspect.isfunction(method)]
        return next((each for each in found if each[0]), (False, None))
    code = getattr(plain, "__code__", None)
    if code and name in code.co_freevars:
        cell = plain.__closure__[code.co_freevars.index(name)]
        try:
            return True, cell.cell_contents
        except ValueError:  # the variable has no value yet
            return False, None
    return (name in plain.__globals__, plain.__globals__.get(name))


def _importable(value: Any) -> tuple[str, str] | None:
    """The module and the name with which a worker can import an object. None for an object that a notebook or a script
    defines."""
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    if not isinstance(name, str) or not name.isidentifier():
        return None
    modules = [str(getattr(value, "__module__", ""))]
    if inspect.isbuiltin(value):  # torch.exp does not say where it is from
        holding = (other for other, module in list(sys.modules.items()) if vars(module).get(name) is value)
        modules += sorted(holding, key=lambda other: (other.startswith("_"), len(other)))
    return next(((module, name) for module in modules if _holds(module, name, value)), None)


def _holds(module: str, name: str, value: Any) -> bool:
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not value:
        return False
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # made by a program, not by an import
        return False


def _literal(value: Any) -> list[str] | None:
    """Lines whose last one is an expression for the value. None for a value without an expression."""
    kind = type(value)
    if f"{kind.__module__}.{kind.__qualname__}" in ("torch.dtype", "torch.device"):
        return ["import torch", repr(value) if kind.__qualname__ == "dtype" else f"torch.{value!r}"]
    if kind.__module__ == "triton.language.core" and kind.__qualname__ == "constexpr":
        inner = _literal(value.value)
        return inner and [*inner[:-1], "import triton.language", f"triton.language.constexpr({inner[-1]})"]
    if kind is float and (value != value or value in (float("inf"), -float("inf"))):
        return [f"float({str(value)!r})"]
    try:
        return [repr(value)] if _same(ast.literal_eval(repr(value)), value) else None
    except (ValueError, SyntaxError, RecursionError):
        return None


def _same(one: Any, other: Any) -> bool:
    return (
        type(one) is type(other)
        and isinstance(one, (int, float, str, bytes, tuple, list, dict, set, type(None)))
        and one == other
    )


def _installed(file: Path) -> bool:
    """Whether every Python process of this installation finds the module of this file."""
    places = {Path(place).resolve() for key, place in sysconfig.get_paths().items() if "lib" in key}
    return any(place in file.resolve().parents for place in places)


def _error(provider: str, what: str) -> ConfigError:
    return ConfigError([ConfigIssue(SourceLocation(f"provider {provider}"), what)])
