"""Runs the reference of a problem in float64, although its code may name other dtypes; otherwise, its own tolerance judges.

A reference of a foreign problem often computes in float32 (`x.to(torch.float32)`) and rounds in between (`.to(x.dtype)`). With
float64 inputs and every such dtype replaced by float64, the same code computes the mathematical definition. The code may not
allow that: it may compare dtypes, call a kernel, or view numbers as bits. Then it runs in the dtypes that the problem declares.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from kbench.contract.operator import Operator
from kbench.results.case import Case

REFERENCE = "reference"
"""The provider that runs the problem's own code."""

OUTPUT_ULPS = 4.0
"""The `output_ulps` of operators that are made of problems, against a reference in float64. The code of problems, and solutions
that follow it step by step, round several intermediate results to the dtype of the output. The default, 2, allows one."""

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


def allows_float64(function: Callable[..., Any], *makers: Callable[[], Sequence[Any]]) -> bool:
    """Whether a function computes in float64.

    Each of `makers` makes arguments for it, with float64 tensors: the first without memory, which is quick. A function that
    looks at values cannot be called with these; then it is called with the next ones.
    """
    for make in makers:
        try:
            with torch.no_grad(), in_float64():
                returned = function(*make())
        except (Exception, SystemExit):  # noqa: BLE001  the code's own; it is reported when the code runs in the declared dtypes
            continue
        values = returned.values() if isinstance(returned, dict) else returned
        tensors = values if not isinstance(values, Tensor) and isinstance(values, Sequence) else [values]
        return not any(isinstance(x, Tensor) and x.dtype in ROUNDED for x in tensors)
    return False


def as_outputs(returned: Any, outputs: Mapping[str, torch.dtype | None], device: torch.device) -> Any:
    """What a function of a problem returned, in the order of the outputs. It may be a dict, and have Python numbers, for which
    `outputs` has a dtype."""
    values = [returned.get(name) for name in outputs] if isinstance(returned, dict) else returned
    if isinstance(values, (Tensor, int, float)):
        values = [values]
    if not isinstance(values, (tuple, list)) or len(values) != len(outputs):
        return returned  # kbench says what is wrong with it
    tensors = [
        torch.tensor(value, dtype=dtype, device=device) if isinstance(value, (int, float)) else value
        for value, dtype in zip(values, outputs.values(), strict=True)
    ]
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def as_double(returned: Any) -> Any:
    """The outputs of a reference that ran in the dtypes of the problem, with float16 and bfloat16 as float64. kbench takes no
    16-bit numbers from a reference. These operators are judged by the tolerance of the problem, which allows for the
    rounding."""
    if isinstance(returned, tuple):
        return tuple(map(as_double, returned))
    short = isinstance(returned, Tensor) and returned.dtype in (torch.float16, torch.bfloat16)
    return returned.double() if short else returned


_Function = TypeVar("_Function", bound=Callable[..., Any])


def standing_for(wrapper: _Function, original: Callable[..., Any]) -> _Function:
    """A function of kbench that calls one of a problem. Messages about it name the place of the problem's function."""
    wrapper.__signature__ = inspect.signature(wrapper)  # type: ignore[attr-defined]  # its own: __wrapped__ has another
    wrapper.__wrapped__ = original  # type: ignore[attr-defined]
    return wrapper


@dataclass(frozen=True)
class OwnTolerance:
    """An element passes if `|output - reference| <= atol + rtol * |reference|`, as in torch.allclose.

    matched  the share of the elements that must pass
    cap      the largest absolute error of any element; None for no limit
    """

    atol: float
    rtol: float
    matched: float = 1.0
    cap: float | None = None

    def fault(self, output: Tensor, reference: Tensor) -> str | None:
        """What is wrong with an output, in words; None if it passes. NaN and infinities must be where the reference has
        them."""
        output_values, reference_values = output.double(), reference.double()
        equal = (output_values == reference_values) | (output_values.isnan() & reference_values.isnan())
        error = torch.where(equal, 0.0, (output_values - reference_values).abs())
        bad = ~(equal | (error <= self.atol + self.rtol * reference_values.abs()))
        passed = 1 - bad.double().mean().item() if bad.numel() else 1.0
        largest = error.nan_to_num(torch.inf).max().item() if error.numel() else 0.0
        if passed < self.matched:
            index = tuple(bad.nonzero()[0].tolist())
            value, right_value = output_values[index].item(), reference_values[index].item()
            first = f"the first element outside is at {list(index)}: {value:.7g} instead of {right_value:.7g}"
            outside = f"{bad.sum().item():,} of {bad.numel():,} elements are outside {self}"
            return f"{outside}, but {self.matched:.2%} must be within the tolerance; {first}"
        if self.cap is not None and largest > self.cap:
            return f"the largest error is {largest:.3g}, and the problem allows {self.cap:.3g}"
        return None

    def __str__(self) -> str:
        return f"the problem's tolerance (atol {self.atol:g}, rtol {self.rtol:g})"


def use_own_tolerance(operator: Operator, tolerance_of: Callable[[Case], OwnTolerance]) -> None:
    """Let the problem's tolerance of each case judge the outputs of an operator."""

    def check(
        case: Case, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor], expected: Mapping[str, Tensor]
    ) -> str | None:
        for name, output in outputs.items():
            if fault := tolerance_of(case).fault(output, expected[name]):
                return f"{name}: {fault}" if len(outputs) > 1 else fault
        return None

    operator.check = check
