"""What kernels of other libraries cannot take, as reasons to decline a case. A provider gives them to `supports`."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from kbench.contract.operator import Operator
from kbench.contract.provider import Unsupported
from kbench.contract.tensor import Tensor
from kbench.results.case import FORWARD, Case

Declines = Callable[[Case], str | None]
"""`(case) -> reason`, or None for a case that the library takes."""

LIGER_LONGEST_ROW = 65536


def any_of(*declines: Declines) -> Declines:
    """The first reason that one of several functions gives."""
    return lambda case: next((reason for decline in declines if (reason := decline(case))), None)


def liger_rows(case: Case) -> str | None:
    return f"N > {LIGER_LONGEST_ROW}: Liger refuses longer rows" if case.N > LIGER_LONGEST_ROW else None


def liger_casting(x: torch.Tensor, weight: torch.Tensor) -> str:
    """Where Liger rounds. `llama` rounds to the dtype of x before it multiplies with the weight, and it rounds each term of the
    weight's gradient, which is too coarse for a gradient in float32. `gemma` computes everything in float32."""
    return "llama" if weight.dtype == x.dtype else "gemma"


def forward_only(library: str) -> Declines:
    return lambda case: None if case.mode == FORWARD else f"{library} has no backward pass"


def same_as(provider: str) -> Declines:
    """For a provider whose backward pass works in place, and whose forward pass does not."""
    reason = f"its forward pass is the same as that of `{provider}`; measure it in mode backward or full"
    return lambda case: reason if case.mode == FORWARD else None


def add_in_place(operator: Operator, name: str) -> None:
    """Register `NAME-in-place`, for a backward pass that works in place beside that of the provider `name`."""
    provider = operator.providers[name]
    operator.provider(
        f"{name}-in-place",
        requires=provider.requires,
        devices=provider.devices,
        available=provider.available,
        supports=any_of(same_as(name), *filter(None, [provider.supports])),
    )(provider.function)


def only_dtypes(library: str, *dtypes: str) -> Declines:
    return lambda case: None if case.dtype in dtypes else f"{library} takes {' and '.join(dtypes)} only"


def weights_in_float32(library: str, weight: Tensor) -> Declines:
    """For a library that takes weights in float32 only. `weight` is the operator's tensor."""
    reason = f"{library} takes weights in float32 only; measure it with weight_dtype: float32"
    return lambda case: reason if weight.dtype_in(case) != "float32" else None


def without_gaps(library: str, x: torch.Tensor) -> torch.Tensor:
    """The matrix. Raises Unsupported if it has gaps, for a library that would copy it although it works in place."""
    if not x.is_contiguous():
        raise Unsupported(f"{library} overwrites its input here, so it needs contiguous matrices")
    return x


def inference_norm(library: str, weight: Tensor, *dtypes: str) -> Declines:
    """For a library whose norm has no backward pass and takes weights in the dtype of x only. `weight` is the operator's
    tensor. `dtypes` are those that the library takes; without any, it takes all."""

    def other_weights(case: Case) -> str | None:
        return f"{library} takes weights in the dtype of x only" if weight.dtype_in(case) != case.dtype else None

    limits = [only_dtypes(library, *dtypes)] if dtypes else []
    return any_of(forward_only(library), *limits, other_weights)


QUACK_SMALLEST_READ = 4
"""Bytes. QuACK's norms and cross-entropy copy rows with `cp.async`, which has no smaller copy."""

QUACK_LONGEST_FLOAT32_ROW = 131072
"""Elements. The backward pass of QuACK's norms refuses longer rows in float32."""


def quack_reads(axis: str, read_bytes: int = QUACK_SMALLEST_READ) -> Declines:
    """For a kernel of QuACK that reads `read_bytes` bytes of a row at once. `axis` is the length of a row."""

    def why(case: Case) -> str | None:
        elements = max(1, read_bytes // case.itemsize)
        remainder = getattr(case, axis) % elements
        return f"{axis} is not a multiple of {elements}, which QuACK needs for {case.dtype}" if remainder else None

    return why


def quack_norm(case: Case) -> str | None:
    """For QuACK's norms, in all modes."""
    if case.mode != FORWARD and case.itemsize == 4 and case.N > QUACK_LONGEST_FLOAT32_ROW:
        return f"N > {QUACK_LONGEST_FLOAT32_ROW}: QuACK's backward pass refuses longer rows in float32"
    return quack_reads("N")(case)


def quack_matrix(x: torch.Tensor, align: int = 16) -> torch.Tensor:
    """The matrix. Raises Unsupported if QuACK cannot read it: each row must start at a multiple of `align` bytes."""
    if (x.stride(1) != 1 and x.shape[1] > 1) or x.stride(0) * x.element_size() % align or x.data_ptr() % align:
        raise Unsupported(
            f"QuACK needs every row to start at a multiple of {align} bytes, and the elements of a row to be next to each "
            "other in memory"
        )
    return x


def quack_rows(x: torch.Tensor) -> torch.Tensor:
    """As `quack_matrix`, for QuACK's norms and cross-entropy. They read as many bytes at once as divide a row, up to 16."""
    return quack_matrix(x, math.gcd(x.shape[1] * x.element_size(), 16))
