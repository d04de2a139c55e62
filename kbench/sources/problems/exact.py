"""Runs the reference of a problem in float64, although its code may name other dtypes.

A reference of a foreign problem often computes in float32 (`x.to(torch.float32)`) and rounds in between (`.to(x.dtype)`). With
float64 inputs and every such dtype replaced by float64, the same code computes the mathematical definition. The code may not
allow that: it may compare dtypes, call a kernel, or view numbers as bits. Then it runs in the dtypes that the problem declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

ROUNDED = (torch.float32, torch.float16, torch.bfloat16)
"""The dtypes that float64 replaces. A conversion to 8 bits is part of a definition (quantisation), and stays."""

_CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)


class _InFloat64(TorchFunctionMode):
    """A context in which torch's functions make float64 numbers wherever they are asked for float32 or shorter ones."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _CASTS:
            return args[0].double()
        if func is not Tensor.view:  # it may reinterpret bits
            args, kwargs = tree_map(_widened, (args, kwargs))
        return func(*args, **kwargs)


def _widened(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in ROUNDED else value


@contextmanager
def in_float64() -> Iterator[None]:
    """Inside, code computes in float64 as far as torch's functions go."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _InFloat64():
            yield
    finally:
        torch.set_default_dtype(before)


def allows_float64(
    function: Callable[..., Any], shapes: Sequence[Callable[[str], Any]], values: Callable[[], Sequence[Any]]
) -> bool:
    """Whether a function computes in float64.

    It is first called on tensors without memory: `shapes` makes an argument each, given a device. A function that looks at
    values cannot be called so; then it is called on `values()`, whose tensors are float64 where they are floating-point.
    """
    try:
        with torch.no_grad(), in_float64():
            return in_double(function(*(make("meta") for make in shapes)))
    except (Exception, SystemExit):  # noqa: BLE001  the code's own, whatever it is; it may work on values
        pass
    try:
        with torch.no_grad(), in_float64():
            return in_double(function(*values()))
    except (Exception, SystemExit):  # noqa: BLE001  the code's own; it is reported when the code runs in the declared dtypes
        return False


def in_double(returned: Any) -> bool:
    """Whether the tensors that a function returned hold float64 where they hold float32 or shorter numbers otherwise."""
    found = (
        returned.values()
        if isinstance(returned, dict)
        else returned
        if isinstance(returned, (tuple, list))
        else [returned]
    )
    return not any(isinstance(x, Tensor) and x.dtype in ROUNDED for x in found)
