"""Runs the code of a problem as a module of its own, and turns what goes wrong in it into a located fault."""

from __future__ import annotations

import ast
import itertools
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from kbench.contract.sizes import SizeError, evaluate_bound
from kbench.files import source_text
from kbench.sources.fault import SourceFault
from kbench.text.exception_text import in_library, location, message

_numbers = itertools.count()


def parse_file(file: Path) -> ast.Module:
    """The syntax tree of a Python file. Raises SourceFault."""
    return _parsed(source_text(file), str(file))


def run_file(file: Path, tree: ast.Module | None = None) -> ModuleType:
    """Run a Python file, or another syntax tree in its place, as a module. It can import files of its folder: before other
    modules of their names while it runs, and after them in its functions.

    Raises SourceFault.
    """
    tree = parse_file(file) if tree is None else tree
    folder = str(file.parent)
    sys.path.insert(0, folder)
    try:
        return _run(compile(tree, str(file), "exec"), str(file), {})
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)


def run_text(text: str, name: str, names: Mapping[str, Any] | None = None) -> ModuleType:
    """Run code that is part of another file as a module. `name` is what messages and tracebacks call it, `names` are in the
    module before its code runs. Raises SourceFault."""
    linecache.cache[name] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        name,
    )  # inspect and Triton read it from there
    return _run(compile(_parsed(text, name), name, "exec"), name, names or {})


def _run(code: CodeType, file: str, names: Mapping[str, Any]) -> ModuleType:
    module = ModuleType(f"kbench_problem_{next(_numbers)}")
    module.__file__ = file
    vars(module).update(names)
    sys.modules[module.__name__] = module
    with blamed(file, "the code"):
        exec(code, module.__dict__)  # in a worker; see problems/__init__.py
    return module


def _parsed(text: str, name: str) -> ast.Module:
    try:
        return ast.parse(text, name)
    except SyntaxError as error:
        where = f"{name}:{error.lineno}:{error.offset}" if error.lineno else name  # a null byte has no line
        raise SourceFault(where, f"not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise SourceFault(name, f"not readable as Python: {error}") from None


def function_of(module: ModuleType, name: str, file: str) -> Callable[..., Any]:
    """A function, or a class, of a module. Raises SourceFault if there is none of this name."""
    found = getattr(module, name, None)
    if not callable(found):
        raise SourceFault(file, f"`{name}` is not defined; define it at the top level")
    wanted: Callable[..., Any] = found
    return wanted


@contextmanager
def blamed(file: str, what: str) -> Iterator[None]:
    """Turn whatever other people's code raises inside into a SourceFault at the line that raised it. The place is the file if a
    library raised it, and no line of the problem."""
    try:
        yield
    except SourceFault:
        raise
    except BaseException as error:  # other people's code may raise anything, SystemExit included
        found = f"{what} raised {type(error).__name__}: {message(error)}"
        where = location(error, file)
        raise SourceFault(file if in_library(where) else where, found) from error


def integer_constants(tree: ast.Module) -> dict[str, int]:
    """The whole numbers that a module assigns to names at its top level: `N = 64`, `N = M = 2 * 1024`.

    A name that is assigned more than once, or from other names, is none of them.
    """
    found: dict[str, int] = {}
    seen: list[str] = []
    for statement in tree.body:
        names = [
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        ]
        seen += names
        if isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
            value = _whole_number(statement.value)
            found |= {} if value is None else dict.fromkeys(names, value)
    return {name: value for name, value in found.items() if seen.count(name) == 1}


def _whole_number(node: ast.expr) -> int | None:
    try:
        return evaluate_bound(ast.unparse(node), {})
    except (SizeError, ZeroDivisionError, OverflowError):
        return None


def with_constants(tree: ast.Module, values: Mapping[str, int]) -> ast.Module:
    """A module in which the constants of `integer_constants` have other values."""
    body: list[ast.stmt] = []
    for statement in tree.body:
        body.append(statement)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id in values:
                again = ast.Assign([ast.Name(target.id, ast.Store())], ast.Constant(values[target.id]))
                body.append(ast.fix_missing_locations(ast.copy_location(again, statement)))
    return ast.Module(body, tree.type_ignores)
