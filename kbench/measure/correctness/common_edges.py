"""Edge inputs that make sense for every operator, for `kbench check` of one that brings none of its own.

What a kernel's author most often forgets: rows that do not follow each other in memory, a large offset, NaN, axes of size
one, and nothing at all. An edge that an operator's own functions do not take (an axis that must be even) is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from kbench.registry import Operator
from kbench.results.row import Case

Change = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Edge:
    """A case and inputs made from a usual one. `inputs` returns None where no input can be changed so."""

    case: Callable[[Case], Case] = lambda case: case
    inputs: Callable[[Sequence[Tensor]], tuple[Tensor, ...] | None] = tuple


def common_edges(operator: Operator) -> dict[str, Edge]:
    """The edges by name: none for an operator with edges of its own."""
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
    """Names of the edge inputs that `kbench check` tries beside random ones."""
    return [*operator.edges, *common_edges(operator)]


def _resized(axis: str, size: int, case: Case) -> Case:
    return replace(case, axes={**case.axes, axis: size})


def _matrices(change: Change, inputs: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """Every input of two dimensions and more, changed."""
    if all(x.dim() < 2 for x in inputs):
        return None
    return tuple(change(x) if x.dim() > 1 else x for x in inputs)


def _first(change: Change, inputs: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """The first input of floating-point values, changed."""
    at = next((i for i, x in enumerate(inputs) if x.is_floating_point() and x.numel()), None)
    return None if at is None else (*inputs[:at], change(inputs[at]), *inputs[at + 1 :])


def _strided(x: Tensor) -> Tensor:
    """A view of a wider tensor: no row after the first is aligned, or follows the one before."""
    wide = x.new_zeros(*x.shape[:-1], x.shape[-1] + 3)
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def _offset(x: Tensor) -> Tensor:
    """So large that squares of it leave no digit for the values, and small enough that the values keep half of theirs."""
    return x + 3 / math.sqrt(torch.finfo(x.dtype).eps)


def _with_nan(x: Tensor) -> Tensor:
    changed = x.clone()
    changed.view(-1)[x.numel() // 2] = math.nan
    return changed
