"""The tensors that a closure holds, and the bytes that they and what it returns show a call to move.

They lie in the variables that it closes over, in its defaults, in globals that its code names, and in the attributes of objects
there.
"""

from __future__ import annotations

import enum
import functools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from kbench.measure.correctness.call import values_of
from kbench.text.exception_text import in_library

DEPTH = 4
"""How far objects inside objects are looked at: a closure over an object whose attribute is a list of tensors."""

EMPTY = (type, ModuleType, Tensor, type(None), str, bytes, int, float, complex, range, slice, enum.Enum)
OF_TORCH = (torch.dtype, torch.device, OpOverload, OpOverloadPacket)
"""What holds no tensors, or is one."""

INDICES = (torch.int32, torch.int64)
"""The dtypes of indices: a call that is given some may use a part of the other tensors only."""

FACTOR = 2 / 1.01
"""By how much counted bytes must differ from those of the tensors: two, up to the rounding of a rate."""


def tensors_of(closure: Callable[..., Any]) -> tuple[list[Tensor], bool]:
    """The tensors that a closure holds, and whether these are all: it holds no object that may hold others, such as one of a
    library."""
    seen: dict[int, Any] = {}
    objects, complete = [closure], True
    for _ in range(DEPTH + 1):
        seen |= {id(value): value for value in objects}
        parts = [_parts(value) for value in objects]
        complete = complete and None not in parts
        objects = [part for some in parts for part in some or () if id(part) not in seen]
    return [value for value in seen.values() if isinstance(value, Tensor)], complete and not objects


def _parts(value: Any) -> list[Any] | None:
    """The objects that an object holds; None if only its library knows them."""
    if isinstance(value, (*EMPTY, *OF_TORCH)):
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
    """The code of a function; None for other objects, although they may copy a function's attributes: Helion's kernels do."""
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
        views[storage.data_ptr()] += x.numel() * x.element_size()
        memory[storage.data_ptr()] = storage.nbytes()
    return sum(min(size, memory[place]) for place, size in views.items())


def doubted_bytes(count: int, least: int, most: float) -> int | None:
    """The bound of a call's bytes that a script's count misses by a factor of two, up to rounding; None if neither."""
    if count * FACTOR <= least:
        return least
    return int(most) if count >= most * FACTOR else None
