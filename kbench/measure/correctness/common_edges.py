"""Common edge cases, for `kbench check` of an operator that declares none.

They are the inputs that authors of kernels most often forget: rows with gaps in memory, a large offset, NaN, the smallest and
the largest label, axes of size one, and empty inputs. Which of them an operator has follows from the tensors that it
declares. An edge case that the operator's own functions do not accept (an axis that must be even) is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from kbench.contract.fills import Integers
from kbench.contract.operator import Operator
from kbench.contract.sizes import evaluate_bound
from kbench.contract.tensor import Tensor as Declared
from kbench.results.case import FLOATING, Case

TensorChange = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Edge:
    """An edge case: how it changes a case, and its inputs. `inputs` gets the case and the inputs of a call. It returns None if
    none of them can be changed in this way."""

    case: Callable[[Case], Case] = lambda case: case
    inputs: Callable[[Case, Sequence[Tensor]], tuple[Tensor, ...] | None] = lambda case, inputs: tuple(inputs)


def common_edges(operator: Operator) -> dict[str, Edge]:
    """The common edge cases by name; none for an operator that declares its own."""
    if operator.edges:
        return {}
    declared = list(operator.inputs.values())
    found: dict[str, Edge] = {}
    if any(len(tensor.sizes) > 1 for tensor in declared):
        found["strided rows"] = Edge(inputs=partial(_matrices, _strided))
        found["transposed"] = Edge(inputs=partial(_matrices, _transposed))
    drawn = [not callable(tensor.fill) for tensor in declared]
    own = [tensor for tensor, is_drawn in zip(declared, drawn, strict=True) if is_drawn]
    if any(dtype in FLOATING for tensor in own for dtype in operator.dtypes_of(tensor)):
        found["large offset"] = Edge(inputs=partial(_first, drawn, _offset))
        found["one NaN"] = Edge(inputs=partial(_first, drawn, _with_nan))
    if any(_range_of(tensor, dtype) for tensor in declared for dtype in operator.dtypes_of(tensor)):
        found["smallest integers"] = Edge(inputs=partial(_integers, declared, False))
        found["largest integers"] = Edge(inputs=partial(_integers, declared, True))
    empty = operator.rows or next(iter(operator.axes), None)
    sizes = [(axis, 1) for axis in operator.axes] + [(axis, 0) for axis in operator.axes if axis == empty]
    return found | {f"{axis}={size}": Edge(case=partial(_resized, axis, size)) for axis, size in sizes}


def edge_names(operator: Operator) -> list[str]:
    """Names of the edge cases that `kbench check` tries beside random inputs."""
    return [*operator.edges, *common_edges(operator)]


def _range_of(tensor: Declared, dtype: str) -> Integers | None:
    """The whole numbers that an input of this dtype is filled with; None if it is filled in another way."""
    fill = tensor.fill_for(dtype)
    return fill if isinstance(fill, Integers) else None


def _integers(
    declared: Sequence[Declared], largest: bool, case: Case, inputs: Sequence[Tensor]
) -> tuple[Tensor, ...] | None:
    """The inputs; those that are filled with whole numbers hold only the smallest one, or the largest one."""
    ranges = [
        _range_of(tensor, tensor.dtype_in(case)) if x.numel() else None
        for tensor, x in zip(declared, inputs, strict=False)
    ]
    ranges += [None] * (len(inputs) - len(ranges))  # the gradients of the outputs
    if not any(ranges):
        return None
    return tuple(
        x if each is None else torch.full_like(x, _end(each, largest, case))
        for x, each in zip(inputs, ranges, strict=True)
    )


def _end(each: Integers, largest: bool, case: Case) -> int:
    return evaluate_bound(each.high, case.axes) - 1 if largest else evaluate_bound(each.low, case.axes)


def _resized(axis: str, size: int, case: Case) -> Case:
    return replace(case, axes={**case.axes, axis: size})


def _matrices(change: TensorChange, case: Case, inputs: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """The inputs; those with two or more dimensions are changed."""
    if all(x.dim() < 2 for x in inputs):
        return None
    return tuple(change(x) if x.dim() > 1 else x for x in inputs)


def _first(
    drawn: Sequence[bool], change: TensorChange, case: Case, inputs: Sequence[Tensor]
) -> tuple[Tensor, ...] | None:
    """The inputs; the first floating-point input that kbench fills itself is changed. What a function fills may have a
    structure, such as sorted values, that the change would break."""
    own = (i for i, (x, is_drawn) in enumerate(zip(inputs, drawn, strict=False)) if is_drawn and x.is_floating_point())
    at = next((i for i in own if inputs[i].numel()), None)
    return None if at is None else (*inputs[:at], change(inputs[at]), *inputs[at + 1 :])


def _strided(x: Tensor) -> Tensor:
    """A view of a wider tensor: rows have gaps between them, and rows after the first are not aligned."""
    wide = x.new_zeros(*x.shape[:-1], x.shape[-1] + 3)
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def _offset(x: Tensor) -> Tensor:
    """Adds an offset whose square leaves no digits for the values, while the sum keeps half the digits of the values."""
    wide = x if x.dtype.itemsize > 1 else x.float()  # torch computes nothing in 8 bits
    return (wide + 3 / math.sqrt(torch.finfo(x.dtype).eps)).to(x.dtype)


def _with_nan(x: Tensor) -> Tensor:
    changed = x.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[x.numel() // 2] = math.nan
    return changed
