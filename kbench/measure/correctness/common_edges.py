"""Common edge cases, for `kbench check` of an operator that declares none.

They are the inputs that authors of kernels most often forget: rows with gaps in memory, a large offset, NaN, axes of size
one, and empty inputs. An edge case that the operator's own functions do not accept (an axis that must be even) is skipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.results.case import Case

TensorChange = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Edge:
    """An edge case: how it changes a case, and its inputs. `inputs` returns None if no input can be changed in this way."""

    case: Callable[[Case], Case] = lambda case: case
    inputs: Callable[[Sequence[Tensor]], tuple[Tensor, ...] | None] = tuple


def common_edges(operator: Operator) -> dict[str, Edge]:
    """The common edge cases by name; none for an operator that declares its own."""
    if operator.edges:
        return {}
    first = list(operator.axes)[:1]
    sizes = [(axis, 1) for axis in operator.axes] + [(axis, 0) for axis in first]
    return {
        "strided rows": Edge(inputs=partial(_matrices, _strided)),
        "transposed": Edge(inputs=partial(_matrices, _transposed)),
        "large offset": Edge(inputs=partial(_first, _offset)),
        "one NaN": Edge(inputs=partial(_first, _with_nan)),
        **{f"{axis}={size}": Edge(case=partial(_resized, axis, size)) for axis, size in sizes},
    }


def edge_names(operator: Operator) -> list[str]:
    """Names of the edge cases that `kbench check` tries beside random inputs."""
    return [*operator.edges, *common_edges(operator)]


def _resized(axis: str, size: int, case: Case) -> Case:
    return replace(case, axes={**case.axes, axis: size})


def _matrices(change: TensorChange, inputs: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """The inputs; those with two or more dimensions are changed."""
    if all(x.dim() < 2 for x in inputs):
        return None
    return tuple(change(x) if x.dim() > 1 else x for x in inputs)


def _first(change: TensorChange, inputs: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """The inputs; the first floating-point input is changed."""
    at = next((i for i, x in enumerate(inputs) if x.is_floating_point() and x.numel()), None)
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
    return x + 3 / math.sqrt(torch.finfo(x.dtype).eps)


def _with_nan(x: Tensor) -> Tensor:
    changed = x.clone()
    changed.view(-1)[x.numel() // 2] = math.nan
    return changed
