"""What a closure holds: tensors, in the variables that it closes over, in its defaults and in the objects there; and functions,
by which two closures of one line of a program can be told apart."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CellType, CodeType, ModuleType
from typing import Any

import torch
from torch import Tensor

from kbench.text.exception_text import in_library

DEPTH = 3
"""How far objects inside objects are looked at: a closure over an object whose attribute is a list of tensors."""

MOST_ITEMS = 100
"""How many items of a list, a tuple or a dict are looked at."""


def held_tensors(closure: Callable[..., Any]) -> dict[str, Tensor]:
    """The tensors that a closure holds, by the names of the variables: `x`, `inputs[0]`, `layer.weight`."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in _tensors("", closure, DEPTH):
        tensors.setdefault(id(tensor), (name, tensor))
    return dict(tensors.values())


def dtype_of_largest(closure: Callable[..., Any]) -> torch.dtype | None:
    """The dtype of the largest tensor that a closure holds; None if it holds none."""
    largest = max(held_tensors(closure).values(), key=lambda x: x.numel() * x.element_size(), default=None)
    return None if largest is None else largest.dtype


def label_of(closure: Callable[..., Any]) -> str:
    """The name of a closure, unless it is a lambda, and those of the functions that it uses: `relu` for `lambda: fn(x)` and for
    `lambda: F.relu(x)`. If it has and uses none, its words: `torch` for `lambda: functions[provider](x)` and for
    `lambda: functions["torch"](x)`. Empty if there is none either."""
    if isinstance(closure, functools.partial):
        return label_of(closure.func) or _name(closure.func)
    code = getattr(closure, "__code__", None)
    if code is None or _uncompiled(closure) is not None:
        return _name(closure)
    own_names = [closure.__name__] if closure.__name__ != "<lambda>" else []
    if own_names and in_library(code.co_filename):
        return own_names[0]
    variables = dict(_contents("", closure)) | {
        name: value for name, value in closure.__globals__.items() if name in code.co_names
    }
    values = [variables[name] for name in (*code.co_freevars, *code.co_names) if name in variables]
    functions = [_name(value) for value in values if _is_function(value)] + list(_functions_of_modules(code, variables))
    dicts = [value for value in values if isinstance(value, dict)]
    keys = [
        constant
        for constant in code.co_consts
        if isinstance(constant, str) and any(constant in names for names in dicts)
    ]
    strings = [value for value in values if isinstance(value, str)] or keys
    return " ".join(dict.fromkeys([*own_names, *functions] or strings))


def place_of_closure(closure: Callable[..., Any]) -> str:
    """`bench.py:31`, the line where a closure of the user's own code begins. Empty for a function of a library."""
    code = getattr(closure, "__code__", None)
    if code is None or in_library(code.co_filename):
        return ""
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, (type, Tensor)) and bool(_name(value))


def _functions_of_modules(code: CodeType, variables: Mapping[str, Any]) -> Iterator[str]:
    """The names of functions that code reads from modules: `relu` for `F.relu`, `linear` for `torch.nn.functional.linear`."""
    modules: list[ModuleType] = []
    for name in code.co_names:
        of_modules = (getattr(module, name) for module in reversed(modules) if hasattr(module, name))
        value = variables[name] if name in variables else next(of_modules, None)
        if isinstance(value, ModuleType):
            modules.append(value)
        elif name not in variables and _is_function(value):
            yield _name(value)


def _name(function: Any) -> str:
    """The name of a function; of one without a name, the line that defines it; of what torch.compile made, `compiled relu`."""
    if (inner := _uncompiled(function)) is not None:
        return f"compiled {_name(inner)}"
    name = str(getattr(function, "__name__", "") or type(function).__name__)
    code = getattr(function, "__code__", None)
    return f"lambda of line {code.co_firstlineno}" if name == "<lambda>" and code else name


def _uncompiled(function: Any) -> Any:
    """What torch.compile made a function or a module of; None for everything else."""
    if type(function).__name__ == "OptimizedModule":
        return function._orig_mod
    attributes = getattr(function, "__dict__", {})  # a module's own attributes may raise
    return None if attributes.get("_torchdynamo_disable") else attributes.get("_torchdynamo_orig_callable")


def _tensors(name: str, value: Any, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
        return
    if depth < 0 or value is None or isinstance(value, (str, bytes, int, float, type)):
        return
    for inner_name, inner in _contents(name, value):
        yield from _tensors(inner_name, inner, depth - 1)


def _contents(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, functools.partial):
        yield name, value.func
        yield from ((f"argument {i}", element) for i, element in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, (list, tuple)):
        yield from ((f"{name}[{i}]", element) for i, element in enumerate(value[:MOST_ITEMS]))
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", element) for key, element in list(value.items())[:MOST_ITEMS])
    elif isinstance(value, torch.nn.Module):
        yield from ((f"{name}.{key}", element) for key, element in value.named_parameters())
    elif code := getattr(value, "__code__", None):
        cells: tuple[CellType, ...] = getattr(value, "__closure__", None) or ()
        for variable, cell in zip(code.co_freevars, cells, strict=False):
            try:
                yield variable, cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        yield from ((f"default {i}", element) for i, element in enumerate(value.__defaults__ or ()))
        if (owner := getattr(value, "__self__", None)) is not None:
            yield "self", owner
        globals_ = getattr(value, "__globals__", {})
        yield from ((key, globals_[key]) for key in code.co_names if isinstance(globals_.get(key), Tensor))
