"""Launches the kernels of this folder, as `dispatch/` plans it."""

from __future__ import annotations

import math
from functools import cache
from operator import attrgetter
from typing import Any

import torch

from kbench.contract.provider import Unsupported
from kbench.kernels.cuda_driver import LARGEST_GRID
from kbench.kernels.norms.dispatch.backward import backward_plan
from kbench.kernels.norms.dispatch.forward import forward_plan
from kbench.kernels.norms.dispatch.launches import Launches, Processors
from kbench.kernels.norms.mathematics import Mathematics
from kbench.kernels.triton_launch import SHORTEST_ODD_ROW, TICKET_WORDS, mailbox, processors_of

Tensors = tuple[torch.Tensor, ...]


def normalise(
    maths: Mathematics,
    inputs: Tensors,
    weights: Tensors,
    outputs: Tensors,
    saved: Tensors,
    eps: float,
    plan: Launches | None = None,
) -> None:
    """Normalise the rows of `inputs`, (M, N) matrices of one dtype, into `outputs`, of the same shape and dtype.

    `weights` are vectors of N elements. `saved` are float32 vectors of M elements, which get the statistics of each row, or ().
    The elements of a row are neighbours in memory. An output may be an input. `plan` replaces that of the dispatch. Raises
    Unsupported if a launch needs too many programs.
    """
    x = inputs[0]
    M, N = x.shape
    if not x.numel():
        return
    vector, anywhere = _vector((*inputs, *outputs)), _anywhere(N, *inputs, *outputs)
    if not plan:
        wide = any(weight.element_size() > x.element_size() for weight in weights)
        plan = forward_plan(M, N, x.element_size(), maths.pivot, _processors(x.device), anywhere, len(inputs), wide)
    tensors: dict[str, Any] = {"inputs": inputs, "weights": weights, "outputs": outputs, "saved": saved}
    strides = {"input_strides": _row_strides(inputs), "output_strides": _row_strides(outputs)}
    if plan.teams:
        tensors["words"] = mailbox(x.device, TICKET_WORDS + M * plan.slices, ("bit 0", plan.slices))
    numbers = {"M": M, "N": N, "eps": eps, "slices": plan.slices, "VEC": _moved(plan, vector, x)}
    unless_planned = {"POLICY": ""}
    _run(plan, unless_planned | tensors | strides | numbers | maths.constants(), x.device)


def gradients(
    maths: Mathematics, inputs: Tensors, statistics: Tensors, weight: torch.Tensor, plan: Launches | None = None
) -> list[torch.Tensor]:
    """The gradient of the rows, and those of the weights, which are sums over the rows.

    `inputs` are (M, N) matrices of one dtype: the gradient of the output, what was normalised, and what else the operator
    needs. `statistics` are what `normalise` saved. The elements of a row are neighbours in memory. `plan` replaces that of the
    dispatch. A plan always adds in the same order, so the gradients are deterministic. Raises Unsupported if a launch needs
    too many programs.
    """
    x = inputs[1]
    M, N = x.shape
    dx, outputs = x.new_empty(M, N), tuple(weight.new_empty(N) for _ in range(maths.column_sums))
    if not x.numel():
        return [dx, *(each.zero_() for each in outputs)]
    vector, anywhere = _vector(inputs, weight), _anywhere(N, *inputs, dx)
    if not plan:
        shape = (M, N, x.element_size(), vector, len(inputs), maths.column_sums)
        plan = backward_plan(*shape, _processors(x.device), anywhere, weight.element_size() > x.element_size())
    tensors: dict[str, Any] = {
        "dx": dx,
        "inputs": inputs,
        "statistics": statistics,
        "weight": weight,
        "outputs": outputs,
    }
    tensors["partial"] = outputs if plan.parts == 1 else _new(x, maths.column_sums, plan.parts, N)
    if plan.teams:
        tensors["words"] = mailbox(x.device, TICKET_WORDS + M * plan.slices, ("bit 0", plan.slices))
    elif plan.slices:
        tensors["means"] = _new(x, maths.row_sums, M, plan.slices)
    known = {"strides": _row_strides(inputs), "M": M, "N": N, "P": plan.parts, "slices": plan.slices}
    known["VEC"] = _moved(plan, vector, x)
    _run(plan, tensors | known | maths.constants(), x.device)
    return [dx, *outputs]


def _run(plan: Launches, known: dict[str, Any], device: torch.device) -> None:
    """Launch each step of a plan with those of the known arguments that its kernel takes. Where programs wait for each other, a
    limit of registers makes sure that they fit on the device. Elsewhere it is for speed, and was measured on some devices
    only."""
    limited = plan.teams or processors_of(device).caps
    for step in plan.steps:
        kernel = _kernel(step.kernel)
        if step.programs > LARGEST_GRID:
            raise Unsupported(f"needs {step.programs} programs; one launch has at most {LARGEST_GRID}")
        given = known | step.arguments
        options = step.options if limited else {k: v for k, v in step.options.items() if k != "maxnreg"}
        kernel[(step.programs,)](**{name: given[name] for name in kernel.arg_names}, **options)


@cache
def _kernel(name: str) -> Any:
    """A kernel by the name that `dispatch/` has for it. The import needs Triton."""
    from kbench.kernels import norms
    from kbench.kernels.norms import (  # noqa: F401 so that `code_files` finds them
        backward_kernels,
        column_kernels,
        forward_kernels,
        forward_teams,
        forward_wide_weights,
        shared_rows,
        window_kernels,
    )

    return attrgetter(name)(norms)


def _new(like: torch.Tensor, count: int, *shape: int) -> Tensors:
    """Some float32 tensors of a shape, in one allocation."""
    return like.new_empty((count, *shape), dtype=torch.float32).unbind()


def _row_strides(matrices: Tensors) -> tuple[int, ...]:
    return tuple(each.stride(0) for each in matrices)


def _vector(matrices: Tensors, *vectors: torch.Tensor) -> int:
    """Elements of which all rows consist, and at multiples of which all rows and the `vectors` begin in memory, up to 16
    bytes."""
    itemsize = matrices[0].element_size()
    strides = [each.stride(0) * itemsize for each in matrices if each.shape[0] > 1]
    addresses = [each.data_ptr() for each in (*matrices, *vectors)]
    return math.gcd(16, matrices[0].shape[1] * itemsize, *strides, *addresses) // itemsize


def _anywhere(N: int, *matrices: torch.Tensor) -> bool:
    """Whether rows of at least SHORTEST_ODD_ROW elements consist of vectors of less than 8 bytes, and a row begins at the same
    distance from a multiple of 16 bytes in all matrices."""
    whole = 16 // matrices[0].element_size()
    strides = [each.stride(0) for each in matrices if each.shape[0] > 1]
    return (
        N >= SHORTEST_ODD_ROW
        and 2 * _vector(matrices) < whole
        and not any((stride - N) % whole for stride in strides)
        and not any(each.data_ptr() % 16 for each in matrices)
    )


def _moved(plan: Launches, vector: int, x: torch.Tensor) -> int:
    """Elements that one access moves."""
    return 16 // x.element_size() if plan.window else vector


@cache
def _processors(device: torch.device) -> Processors:
    if device.type != "cuda":
        return Processors(4, 32, 0, False, device.type == "cpu", device.type == "cpu")
    nvidia = torch.version.hip is None
    properties: Any = torch.cuda.get_device_properties(device)
    shared_bytes = properties.shared_memory_per_block_optin if nvidia else 0
    return Processors(
        properties.multi_processor_count,
        processors_of(device).warp_size,
        shared_bytes,
        chained=nvidia and properties.major >= 9,
        cache_bytes=processors_of(device).cache_bytes,
    )
