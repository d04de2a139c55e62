"""Matrices for kernels that need the elements of each row next to each other, and new tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from kbench.contract.provider import Unsupported

new_on_device: Callable[..., Tensor] = torch._C._dynamo.guards._empty_strided_cuda  # type: ignore[attr-defined]
"""`(sizes, strides, dtype)`, with tuples: a new tensor on the current device, in less than half the time of
`torch.empty_like`. Code that torch.compile generates allocates in this way."""


def dense(x: Tensor) -> Tensor:
    """The matrix itself if the elements of each row are next to each other in memory, or else a copy without gaps."""
    return x if x.is_contiguous() or x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()


def require_dense(x: Tensor) -> Tensor:
    """The matrix itself. Raises Unsupported if `dense` would copy it: a kernel that works in place cannot take a copy."""
    if dense(x) is not x:
        raise Unsupported("the elements of a row are not next to each other in memory (stride(-1) is not 1)")
    return x


def dense_like(x: Tensor) -> Tensor:
    """A new matrix of the shape and the dtype of x, without gaps."""
    if x.is_cuda and x.is_contiguous():
        return new_on_device(tuple(x.shape), x.stride(), x.dtype)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def new_rows(x: Tensor, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A new tensor of one or two dimensions, on the device of x."""
    if x.is_cuda:
        return new_on_device(sizes, (*sizes[1:], 1), dtype)
    return x.new_empty(sizes, dtype=dtype)
