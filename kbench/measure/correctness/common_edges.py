"""Common edge cases, for `kbench check` of an operator that declares none.

They are the inputs that authors of kernels most often forget: rows with gaps in memory, zeros, tiny and large values, NaN, the
smallest and the largest label, axes of size one and of an odd size, and empty inputs. Which of them an operator has follows
from the tensors that it declares. Those that the operator's own functions do not accept are skipped.

Every operator has edges with inputs that are not aligned, and with rows far apart, also one that declares edges of its own.

Special values are for the forward pass alone. Kernels that compute gradients may treat them in other ways than the reference
and be right: a NaN times a weight of 0 is NaN, and a mask makes it 0.

In modes with gradients, every operator has edges for the memory of the gradients that a kernel receives. `torch.cat` hands out
parts of one gradient, with gaps between the rows, and a sum hands out one row for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.sizes import evaluate_bound
from kbench.contract.tensor import Integers
from kbench.contract.tensor import Tensor as Declared
from kbench.results.case import FLOATING, FORWARD, Case
from kbench.results.vocabulary import EdgeInput

TensorChange = Callable[[Tensor], Tensor]
InputsChange = Callable[[Case, Sequence[Tensor]], tuple[Tensor, ...]]

OF_MEMORY = (EdgeInput.STRIDED_ROWS, EdgeInput.TRANSPOSED, EdgeInput.ODD_OFFSET, EdgeInput.HUGE_STRIDE)
"""The edge cases that change where the inputs lie, and no value."""

FAR = 2**31
"""The first offset that 32 bits with a sign cannot hold."""

FAR_SHARE = 0.35
"""The most of a device's free memory that rows far apart may span. The call needs memory, too."""


@dataclass(frozen=True)
class Edge:
    """An edge case.

    case    how it changes a case
    inputs  how it changes the inputs of a call. If it leaves every one as it is, the edge case is not for them
    finite  it is only for operators whose outputs are finite on it, and far from the largest number of their dtype
    nearby  inputs that differ from these by almost nothing. It is only for operators whose outputs then differ as little: a
            choice among equal values has no right answer
    """

    case: Callable[[Case], Case] = lambda case: case
    inputs: InputsChange | None = None
    finite: bool = False
    nearby: InputsChange | None = None


def common_edges(operator: Operator, mode: str) -> dict[str, Edge]:
    """The common edge cases of a mode by name. An operator with edges of its own has only those of alignment, of rows far apart
    and of received gradients. A problem of another benchmark has none of memory: its solutions need not expect gaps."""
    edges = {} if operator.edges else _edges_of_inputs(operator, mode)
    edges[EdgeInput.ODD_OFFSET] = Edge(inputs=_changed(_at_odd_offset))
    if any(len(tensor.sizes) > 1 for tensor in operator.inputs.values()):
        edges[EdgeInput.HUGE_STRIDE] = Edge(
            inputs=_changed_first(_far_apart, lambda number, x: x.dim() > 1 and len(x) > 1)
        )
    if mode != FORWARD and operator.gradients:
        for name, change in ((EdgeInput.STRIDED_GRADIENTS, _spread), (EdgeInput.EXPANDED_GRADIENTS, _expanded)):
            edges[name] = Edge(
                inputs=_changed(change, lambda number, x: number >= len(operator.inputs) and x.dim() > 0)
            )
    left_out = {*operator.edges, *(OF_MEMORY if operator.source else ())}
    return {name: edge for name, edge in edges.items() if name not in left_out}


def _edges_of_inputs(operator: Operator, mode: str) -> dict[str, Edge]:
    declared = list(operator.inputs.values())
    edges: dict[str, Edge] = {}
    if any(len(tensor.sizes) > 1 for tensor in declared):
        edges[EdgeInput.STRIDED_ROWS] = Edge(inputs=_changed(_strided, lambda number, x: x.dim() > 1))
        edges[EdgeInput.TRANSPOSED] = Edge(inputs=_changed(_transposed, lambda number, x: x.dim() > 1))
    positions = [
        position
        for position, tensor in enumerate(declared)
        if not callable(tensor.fill) and any(dtype in FLOATING for dtype in operator.dtypes_of(tensor))
    ]
    if positions and mode == FORWARD:
        # they leave out what a function fills: it may have a structure, such as sorted values, that the change would break
        change = partial(_changed_first, fits=lambda number, x: number in positions and x.is_floating_point())
        edges[EdgeInput.LARGE_OFFSET] = Edge(inputs=change(_offset))
        whole = [tensor for tensor in operator.outputs.values() if not set(operator.dtypes_of(tensor)) <= set(FLOATING)]
        # equal values have no order, so indices and counts may differ and be right; a judge may expect random values
        if not whole and operator.check is None:
            edges[EdgeInput.ZEROS] = Edge(inputs=change(torch.zeros_like), finite=True, nearby=change(_almost_zero))
            edges[EdgeInput.TINY] = Edge(inputs=change(_tiny))
        if "float16" in operator.dtypes_of(declared[positions[0]]) and operator.check is None:
            edges[EdgeInput.LARGE_VALUES] = Edge(inputs=change(_enlarged), finite=True)
        edges[EdgeInput.NAN] = Edge(inputs=change(_with_nan))
    if any(_range_of(tensor, dtype) for tensor in declared for dtype in operator.dtypes_of(tensor)):
        edges[EdgeInput.SMALLEST_INTEGERS] = Edge(inputs=partial(_integers, declared, False))
        edges[EdgeInput.LARGEST_INTEGERS] = Edge(inputs=partial(_integers, declared, True))
    empty = operator.rows or next(iter(operator.axes), None)
    sizes = [(axis, 1) for axis in operator.axes] + [(axis, 0) for axis in operator.axes if axis == empty]
    edges |= {f"{axis}={size}": Edge(case=partial(_resized, axis, size)) for axis, size in sizes}
    return edges | {f"{axis}=odd": Edge(case=partial(_odd, axis)) for axis in operator.axes}


def edge_names(operator: Operator, mode: str) -> list[str]:
    """Names of the edge cases that `kbench check` tries in a mode beside random inputs."""
    return [*operator.edges, *common_edges(operator, mode)]


def _range_of(tensor: Declared, dtype: str) -> Integers | None:
    """The whole numbers that an input of this dtype is filled with; None if by other means."""
    fill = tensor.fill_for(dtype)
    return fill if isinstance(fill, Integers) else None


def _integers(declared: Sequence[Declared], largest: bool, case: Case, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The inputs; those that are filled with whole numbers hold only the smallest or the largest."""
    changed = list(inputs)
    for number, tensor in enumerate(declared):
        integers = _range_of(tensor, tensor.dtype_in(case))
        if integers and inputs[number].numel():
            end = evaluate_bound(integers.below, case.axes) - 1 if largest else evaluate_bound(integers.low, case.axes)
            changed[number] = torch.full_like(inputs[number], end)
    return tuple(changed)


def _resized(axis: str, size: int, case: Case) -> Case:
    return replace(case, axes={**case.axes, axis: size})


def _odd(axis: str, case: Case) -> Case:
    """About half as large an axis: almost half of a block that is rounded up lies behind the end."""
    return _resized(axis, int(getattr(case, axis)) // 2 | 1, case)


def _changed(
    change: TensorChange, fits: Callable[[int, Tensor], bool] = lambda number, x: True, most: int | None = None
) -> InputsChange:
    """Changes the inputs, and the gradients behind them, that have elements and fit: at most so many."""

    def changed(case: Case, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        numbers = [number for number, x in enumerate(inputs) if x.numel() and fits(number, x)][:most]
        return tuple(change(x) if number in numbers else x for number, x in enumerate(inputs))

    return changed


_changed_first = partial(_changed, most=1)


def _at_odd_offset(x: Tensor) -> Tensor:
    """One element into its memory: without gaps, but not aligned, as the flat parameters of a model are."""
    return x.new_empty(1 + x.numel())[1:].view(x.shape).copy_(x)


def _far_apart(x: Tensor) -> Tensor:
    """Has the last row begin FAR elements after the first. There is as much memory before it: an offset that has become
    negative reads other values, and does not end the process. Leaves them on a host, whose memory other programs need."""
    if x.device.type != "cuda":
        return x
    stride = max(x[0].numel(), -(-FAR // (len(x) - 1)))
    elements = FAR + (len(x) - 1) * stride + x[0].numel()
    if elements * x.element_size() > FAR_SHARE * torch.cuda.mem_get_info(x.device)[0]:
        return x
    return x.new_empty(elements).as_strided(x.shape, (stride, *x[0].contiguous().stride()), FAR).copy_(x)


def _spread(x: Tensor) -> Tensor:
    return _strided(x) if x.dim() > 1 else _strided(x[:, None])[:, 0]


def _expanded(x: Tensor) -> Tensor:
    """The first row, or the first element of a vector, for all."""
    return x[:1].expand_as(x)


def _strided(x: Tensor) -> Tensor:
    """A view of a wider tensor: rows have gaps between them, and rows after the first are not aligned."""
    wide = x.new_zeros(*x.shape[:-1], x.shape[-1] + 3)
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def _offset(x: Tensor) -> Tensor:
    """Adds an offset whose square leaves no digits for the values, while the sum keeps half of them."""
    wide = x if x.dtype.itemsize > 1 else x.float()  # torch computes nothing in 8 bits
    return (wide + 3 / math.sqrt(torch.finfo(x.dtype).eps)).to(x.dtype)


def _tiny(x: Tensor) -> Tensor:
    """Values whose squares are about the epsilon of a norm. 8 bits have no numbers as small."""
    return x * 1e-3 if x.dtype.itemsize > 1 else x


def _almost_zero(x: Tensor) -> Tensor:
    """In float64, because other dtypes have no numbers as small. Only the reference gets them."""
    return torch.randn(x.shape, dtype=torch.float64, device=x.device) * 1e-30


def _enlarged(x: Tensor) -> Tensor:
    """Values in float16 whose squares are too large for it. Others have none that float32 can square."""
    return x * 1000 if x.dtype == torch.float16 else x


def _with_nan(x: Tensor) -> Tensor:
    changed = x.clone(memory_format=torch.contiguous_format)
    changed.view(-1)[x.numel() // 2] = math.nan
    return changed
