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
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from kbench.measure.correctness.call import values_of
from kbench.text.exception_text import in_library

DEPTH = 3
"""How far objects inside objects are looked at: a closure over an object whose attribute is a list of tensors."""

MOST_ITEMS = 100
"""How many items of a list, a tuple or a dict are looked at."""

LOOKED_INTO = (FunctionType, MethodType, BuiltinMethodType, functools.partial, list, tuple, dict, torch.nn.Module)
PLAIN = (type, ModuleType, Tensor, type(None), str, bytes, int, float, complex, range, slice, enum.Enum)
OF_TORCH = (torch.dtype, torch.device, OpOverload, OpOverloadPacket)

INDICES = (torch.int32, torch.int64)
"""The dtypes of indices: a call that is given some may use a part of the other tensors only."""

FACTOR = 2 / 1.01
"""By how much counted bytes must differ from those of the tensors: two, up to the rounding of a rate."""


@dataclass(frozen=True)
class Held:
    """What a closure holds.

    tensors   all tensors
    named     those that its own code names, so that it uses them
    complete  whether it holds no object that may hold other tensors, such as one of a library
    """

    tensors: list[Tensor]
    named: list[Tensor]
    complete: bool


def held_by(closure: Callable[..., Any]) -> Held:
    seen: dict[int, Any] = {}
    objects = [closure]
    for _ in range(DEPTH + 1):
        fresh = {id(value): value for value in objects if id(value) not in seen}
        seen |= fresh
        objects = [part for value in fresh.values() for part in _parts(value)]
    rest = [value for value in objects if id(value) not in seen]
    reached = [*seen.values(), *rest]
    complete = all(map(_is_looked_into, reached)) and not any(True for value in rest for _ in _parts(value))
    tensors = {id(value): value for value in reached if isinstance(value, Tensor)}
    named = {id(part): part for part in _parts(closure) if isinstance(part, Tensor)}
    return Held(list(tensors.values()), list(named.values()), complete)


def _parts(value: Any) -> Iterator[Any]:
    """The objects that an object holds."""
    if isinstance(value, (type, Tensor)):
        return
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, (list, tuple)):
        yield from value[:MOST_ITEMS]
    elif isinstance(value, dict):
        yield from list(value.values())[:MOST_ITEMS]
    elif isinstance(value, torch.nn.Module):
        yield from value.parameters()
        yield from value.buffers()
    elif code := getattr(value, "__code__", None):
        yield from closed_over(value).values()
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
        yield getattr(value, "__self__", None)
        if not in_library(code.co_filename):
            variables = getattr(value, "__globals__", {})
            yield from (variables[name] for name in code.co_names if name in variables)
    elif isinstance(value, BuiltinMethodType):  # `x.sum`
        yield value.__self__
    elif _of_the_user(value):
        yield from list(getattr(value, "__dict__", {}).values())[:MOST_ITEMS]


def _is_looked_into(value: Any) -> bool:
    """Whether an object holds no tensors but those in `_parts`. What objects of a library hold is the library's business."""
    if isinstance(value, (list, tuple, dict)):
        return len(value) <= MOST_ITEMS
    of_triton = type(value).__module__.startswith("triton.")  # a kernel, or what its launch returned
    return isinstance(value, (*LOOKED_INTO, *PLAIN, *OF_TORCH)) or of_triton or _of_the_user(value)


def _of_the_user(value: Any) -> bool:
    """Whether the class of an object is the user's own."""
    file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
    return file is not None and not in_library(file)


def closed_over(function: Any) -> dict[str, Any]:
    """The variables of other functions that a function uses."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):  # not assigned yet
            values[name] = cell.cell_contents
    return values


@dataclass(frozen=True)
class TensorBytes:
    """How many bytes a call moves, as far as its tensors show it.

    least  those of the tensors that it names and returns
    most   those of all tensors that it holds and returns; infinite if it may use others
    """

    least: int = 0
    most: float = math.inf

    @classmethod
    def of(cls, held: Held, returned: Any) -> TensorBytes:
        values = [value for value in values_of(returned) if value is not None]
        outputs = [value for value in values if isinstance(value, Tensor)]
        tensors = [*held.tensors, *outputs]
        if any(type(x) not in (Tensor, torch.nn.Parameter) or x.layout != torch.strided for x in tensors):
            return cls()
        indexed = any(x.dtype in INDICES and x.numel() > 1 for x in held.tensors)
        certain = [*held.named, *outputs]
        dimensions = max((x.dim() for x in certain), default=0)
        least = _bytes((x for x in certain if x.dim() == dimensions), max)  # scripts leave out the weight of a row
        hidden = not held.complete or not all(map(_is_looked_into, values)) or _runs_backward(held, outputs)
        # a call that returns no tensor may write those that it holds, and so may one that returns what it holds
        most = _bytes(held.tensors, sum) + _bytes(outputs or held.tensors, sum)
        return cls(0 if indexed else least, math.inf if hidden or not held.tensors else most)

    def doubt(self, count: int) -> int | None:
        """The one of the two that a script's count misses by a factor of two, up to rounding; None if neither."""
        if count * FACTOR <= self.least:
            return self.least
        return int(self.most) if count >= self.most * FACTOR else None


def _runs_backward(held: Held, outputs: list[Tensor]) -> bool:
    """Whether a call may compute gradients, for which torch holds other tensors."""
    return any(x.grad_fn is not None or (x.requires_grad and not outputs) for x in held.tensors)


def _bytes(tensors: Iterable[Tensor], of_views: Callable[[Iterable[int]], int]) -> int:
    """The bytes of tensors. Views of one memory count as their largest (`max`), or as all together (`sum`), and not more than
    the memory has."""
    views, memory = defaultdict[int, list[int]](list), dict[int, int]()
    for x in tensors:
        storage = x.untyped_storage()
        views[storage.data_ptr()].append(x.numel() * x.element_size())
        memory[storage.data_ptr()] = storage.nbytes()
    return sum(min(of_views(sizes), memory[place]) for place, sizes in views.items())
