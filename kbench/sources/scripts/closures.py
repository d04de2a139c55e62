"""What a closure holds: tensors, in the variables that it closes over, in its defaults and in the objects there; and functions,
by which two closures of one line of a program can be told apart."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CellType
from typing import Any

import torch
from torch import Tensor

DEPTH = 3
"""How far objects inside objects are looked at: a closure over an object whose attribute is a list of tensors."""

MOST_ITEMS = 100
"""How many items of a list, a tuple or a dict are looked at."""


def held_tensors(closure: Callable[..., Any]) -> dict[str, Tensor]:
    """The tensors that a closure holds, by the names of the variables: `x`, `inputs[0]`, `layer.weight`."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in _tensors("", closure, DEPTH):
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def dtype_of_largest(closure: Callable[..., Any]) -> torch.dtype | None:
    """The dtype of the largest tensor that a closure holds; None if it holds none."""
    largest = max(held_tensors(closure).values(), key=lambda x: x.numel() * x.element_size(), default=None)
    return None if largest is None else largest.dtype


def label_of(closure: Callable[..., Any]) -> str:
    """The names of the functions that a closure holds in its variables, such as `relu` for `lambda: fn(x)`. If it holds none,
    its words, such as `torch` for `lambda: functions[provider](x)`. Empty if it holds neither."""
    if isinstance(closure, functools.partial):
        return label_of(closure.func) or _name(closure.func)
    code = getattr(closure, "__code__", None)
    if code is None:
        return _name(closure)
    known = dict(_parts("", closure)) | {
        name: value for name, value in closure.__globals__.items() if name in code.co_names
    }
    values = [known[name] for name in (*code.co_freevars, *code.co_names) if name in known]
    functions = [
        found
        for value in values
        if callable(value) and not isinstance(value, (type, Tensor)) and (found := _name(value))
    ]
    return " ".join(dict.fromkeys(functions or [value for value in values if isinstance(value, str)]))


def _name(function: Any) -> str:
    """The name of a function; of one without a name, the line that defines it."""
    name = str(getattr(function, "__name__", "") or type(function).__name__)
    code = getattr(function, "__code__", None)
    return f"lambda of line {code.co_firstlineno}" if name == "<lambda>" and code else name


def _tensors(name: str, value: Any, depth: int) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
        return
    if depth < 0 or value is None or isinstance(value, (str, bytes, int, float, type)):
        return
    for part, inner in _parts(name, value):
        yield from _tensors(part, inner, depth - 1)


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, functools.partial):
        yield name, value.func
        yield from ((f"argument {i}", each) for i, each in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, (list, tuple)):
        yield from ((f"{name}[{i}]", each) for i, each in enumerate(value[:MOST_ITEMS]))
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", each) for key, each in list(value.items())[:MOST_ITEMS])
    elif isinstance(value, torch.nn.Module):
        yield from ((f"{name}.{key}", each) for key, each in value.named_parameters())
    elif code := getattr(value, "__code__", None):
        cells: tuple[CellType, ...] = getattr(value, "__closure__", None) or ()
        for variable, cell in zip(code.co_freevars, cells, strict=False):
            try:
                yield variable, cell.cell_contents
            except ValueError:  # not assigned yet
                continue
        yield from ((f"default {i}", each) for i, each in enumerate(value.__defaults__ or ()))
        if owner := getattr(value, "__self__", None):
            yield "self", owner
        globals_ = getattr(value, "__globals__", {})
        yield from ((key, globals_[key]) for key in code.co_names if isinstance(globals_.get(key), Tensor))
