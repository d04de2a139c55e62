"""What a closure holds: its tensors, the bytes that they and its result show a call to move, and the functions that it uses,
by which two closures of one line of a program can be told apart.

Tensors lie in variables that it closes over, in its defaults, in globals that its code names, and in attributes of these.
"""

from __future__ import annotations

import enum
import functools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from kbench.measure.correctness.call import values_of
from kbench.text.exception_text import in_library

DEPTH = 4
"""How far objects inside objects are looked at: a closure over an object whose attribute is a list of tensors."""

EMPTY = (
    *(type, ModuleType, Tensor, type(None), str, bytes, int, float, complex, range, slice, enum.Enum),
    *(torch.dtype, torch.device, OpOverload, OpOverloadPacket),
)
"""What holds no tensors, or is one."""

INDICES = (torch.int32, torch.int64)
"""The dtypes of indices: a call that is given some may use a part of the other tensors only."""

FACTOR = 2 / 1.01
"""By how much counted bytes must differ from those of the tensors: two, up to the rounding of a rate."""


def tensors_of(closure: Callable[..., Any]) -> tuple[list[Tensor], bool]:
    """The tensors that a closure holds, and whether no object in it may hold others."""
    seen: dict[int, Any] = {}
    objects, complete = [closure], True
    for _ in range(DEPTH + 1):
        seen |= {id(value): value for value in objects}
        parts = [_parts(value) for value in objects]
        complete = complete and None not in parts
        objects = [part for of_object in parts for part in of_object or () if id(part) not in seen]
    return [value for value in seen.values() if isinstance(value, Tensor)], complete and not objects


def _parts(value: Any) -> list[Any] | None:
    """The objects that an object holds; None if only its library knows them."""
    if isinstance(value, EMPTY):
        return []
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, torch.nn.Module):
        return [*value.parameters(), *value.buffers()]
    if isinstance(value, BuiltinMethodType):  # `x.sum`
        return [value.__self__]
    if code := code_of(value):
        keywords, variables = value.__kwdefaults__ or {}, getattr(value, "__globals__", {})
        parts = [getattr(value, "__self__", None), *(value.__defaults__ or ()), *keywords.values()]
        names = () if in_library(code.co_filename) else code.co_names
        return [*closed_over(value).values(), *parts, *(variables[name] for name in names if name in variables)]
    module = type(value).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is not None and not in_library(file):  # of a class of the user
        return list(getattr(value, "__dict__", {}).values())
    return [] if module.startswith("triton.") else None  # a kernel, or what its launch returned


def code_of(value: Any) -> CodeType | None:
    """The code of a function; None for objects that only copy its attributes, as Helion's kernels do."""
    function = value.__func__ if isinstance(value, MethodType) else value
    return function.__code__ if isinstance(function, FunctionType) else None


def closed_over(function: Any) -> dict[str, Any]:
    """The variables of other functions that a function uses."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # not assigned yet
            values[name] = cell.cell_contents
    return values


def tensor_bytes(closure: Callable[..., Any], returned: Any) -> tuple[int, float]:
    """How many bytes a call moves, as far as its tensors show it: at least those that its own code names and that it returns,
    and at most all that it holds and returns; infinitely many if it may use others."""
    tensors, complete = tensors_of(closure)
    values = [value for value in values_of(returned) if value is not None]
    outputs = [value for value in values if isinstance(value, Tensor)]
    if any(type(x) not in (Tensor, torch.nn.Parameter) or x.layout != torch.strided for x in (*tensors, *outputs)):
        return 0, math.inf
    indexed = any(x.dtype in INDICES and x.numel() > 1 for x in tensors)
    named = [part for part in _parts(closure) or () if isinstance(part, Tensor)]
    # for gradients, torch holds other tensors
    backward = any(x.grad_fn is not None or (x.requires_grad and not outputs) for x in tensors)
    hidden = backward or not complete or not tensors or len(outputs) < len(values)
    # a call that returns no tensor may write those that it holds, and so may one that returns what it holds
    most = math.inf if hidden else _bytes(tensors) + _bytes(outputs or tensors)
    return 0 if indexed else _bytes([*named, *outputs]), most


def _bytes(tensors: Iterable[Tensor]) -> int:
    """The bytes of tensors. Views of one memory do not have more than it has."""
    views, memory = defaultdict[int, int](int), dict[int, int]()
    for x in tensors:
        storage = x.untyped_storage()
        views[storage.data_ptr()] += x.nbytes
        memory[storage.data_ptr()] = storage.nbytes()
    return sum(min(size, memory[place]) for place, size in views.items())


def doubted_bytes(count: int, least: int, most: float) -> int | None:
    """The bound of a call's bytes that a script's count misses by a factor of two; None if neither."""
    if count * FACTOR <= least:
        return least
    return int(most) if count >= most * FACTOR else None


def place_of_closure(closure: Callable[..., Any]) -> str:
    """`bench.py:31`, where a closure of the user's code begins. Empty for a library's, or without a file."""
    code = getattr(closure, "__code__", None)
    if code is None or code.co_filename.startswith("<") or in_library(code.co_filename):
        return ""
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"


def label_of(closure: Callable[..., Any]) -> str:
    """The name of a closure, unless it is a lambda, and those of the functions that it uses: `relu` for `lambda: fn(x)` and for
    `lambda: F.relu(x)`. If it has and uses none, its words: `torch` for `lambda: functions[provider](x)` and for
    `lambda: functions["torch"](x)`. Empty if there is none either."""
    if isinstance(closure, functools.partial):
        return label_of(closure.func) or _name(closure.func)
    code = code_of(closure)
    if code is None or _uncompiled(closure) is not None:
        return _name(closure)
    own_names = [] if closure.__name__ == "<lambda>" else [closure.__name__]
    if own_names and in_library(code.co_filename):
        return own_names[0]
    variables = closure.__globals__ | closed_over(closure)
    values, modules = list[Any](), list[ModuleType]()
    for name in (*code.co_freevars, *code.co_names):
        owner = next((module for module in reversed(modules) if hasattr(module, name)), None)
        if name in variables or owner:
            value = variables[name] if name in variables else getattr(owner, name)
            values.append(value)
            modules += [value] if isinstance(value, ModuleType) else []
    functions = [_name(value) for value in values if callable(value) and not isinstance(value, (type, Tensor))]
    words = [value for value in values if isinstance(value, str)]
    if not words:
        keys = {key for value in values if isinstance(value, dict) for key in value}
        words = [constant for constant in code.co_consts if isinstance(constant, str) and constant in keys]
    return " ".join(dict.fromkeys([*own_names, *functions] or words))


def _name(function: Any) -> str:
    """The name of a function, or the line that defines it; `compiled relu` for what torch.compile made."""
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
