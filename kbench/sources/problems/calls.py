"""Calls of a problem's functions in the form that an operator and its providers have in kbench."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from kbench.sources.problems.exact import in_float64

_Function = TypeVar("_Function", bound=Callable[..., Any])

REFERENCE = "reference"
"""The provider that runs the problem's own code."""

OUTPUT_ULPS = 4.0
"""The `output_ulps` of operators that are made of problems, against a reference in float64. The code of problems, and solutions
that follow it step by step, round several intermediate results to the dtype of the output. The default, 2, allows one."""


def reference_of(
    function: Callable[..., Any], outputs: Mapping[str, torch.dtype | None], dtypes: Sequence[torch.dtype] | None
) -> Callable[..., Any]:
    """The reference of an operator that calls a function of a problem: in float64, or with inputs of these dtypes.

    `outputs` has a dtype for those that may be Python numbers.
    """

    def reference(*tensors: Tensor, **values: Any) -> Any:
        if dtypes is None:
            with in_float64():
                return as_outputs(function(*tensors, **values), outputs, tensors[0].device)
        given = [x.to(dtype) for x, dtype in zip(tensors, dtypes, strict=True)]
        return as_double(as_outputs(function(*given, **values), outputs, tensors[0].device))

    return reference


def as_outputs(returned: Any, outputs: Mapping[str, torch.dtype | None], device: torch.device) -> Any:
    """What a function of a problem returned, in the order of the outputs. It may be a dict, and have Python numbers."""
    values = [returned.get(name) for name in outputs] if isinstance(returned, dict) else returned
    if isinstance(values, (Tensor, int, float)):
        values = [values]
    if not isinstance(values, (tuple, list)) or len(values) != len(outputs):
        return returned  # kbench says what is wrong with it
    found = [
        torch.tensor(value, dtype=dtype, device=device) if isinstance(value, (int, float)) else value
        for value, dtype in zip(values, outputs.values(), strict=True)
    ]
    return found[0] if len(found) == 1 else tuple(found)


def as_double(returned: Any) -> Any:
    """The outputs of a reference that ran in the dtypes of the problem, with float16 and bfloat16 as float64. kbench takes no
    16-bit numbers from a reference. These operators are judged by the tolerance of the problem, which allows for the
    rounding."""
    if isinstance(returned, tuple):
        return tuple(map(as_double, returned))
    short = isinstance(returned, Tensor) and returned.dtype in (torch.float16, torch.bfloat16)
    return returned.double() if short else returned


def standing_for(wrapper: _Function, original: Callable[..., Any]) -> _Function:
    """A function of kbench that calls one of a problem. Messages about it name the place of the problem's function."""
    wrapper.__signature__ = inspect.signature(wrapper)  # type: ignore[attr-defined]  # its own: __wrapped__ has another
    wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper
