"""The memory of an input: room for several sets of its values, at addresses that change. And whether an output lies in it."""

from __future__ import annotations

import torch
from torch import Tensor

STEP_BYTES = 512
"""Addresses move by a multiple of this. torch's allocator aligns memory of a device to as many bytes."""

SHIFTS = 16
"""How many addresses there are."""


class Placement:
    """Memory for `sets` tensors like `like`, each at a multiple of STEP_BYTES from the others.

    `step`, from 0 to SHIFTS - 1, says how far all of them lie from the start of the memory.
    """

    def __init__(self, like: Tensor, sets: int) -> None:
        self._shape, self._stride, self.sets = tuple(like.shape), like.stride(), sets
        last = sum((size - 1) * stride for size, stride in zip(self._shape, self._stride, strict=True))
        bytes_ = (last + 1) * like.element_size() if like.numel() else 0
        self._set_elements = -(-bytes_ // STEP_BYTES) * STEP_BYTES // like.element_size()
        self._step_elements = STEP_BYTES // like.element_size()
        total = self._set_elements * sets + self._step_elements * SHIFTS
        self._memory = torch.empty(total, dtype=like.dtype, device=like.device)

    def tensor(self, number: int, step: int) -> Tensor:
        """The tensor of one set. It is no view of another tensor, so compilers take it for an input of its own."""
        start = step * self._step_elements + number * self._set_elements
        return self._memory.new_empty(0).set_(self._memory.untyped_storage(), start, self._shape, self._stride)

    def stacked(self, step: int) -> Tensor:
        """The tensors of all sets as one, along a new first dimension."""
        start, shape, stride = (
            step * self._step_elements,
            (self.sets, *self._shape),
            (self._set_elements, *self._stride),
        )
        return self._memory.new_empty(0).set_(self._memory.untyped_storage(), start, shape, stride)


def same_memory(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors begin at the same address. False if `a` has no elements."""
    return a.numel() > 0 and a.data_ptr() == b.data_ptr()


def is_view(output: Tensor, x: Tensor) -> bool:
    """Whether an output lies in the memory of an input, be it at another offset. False if it has no elements."""
    return output.numel() > 0 and output.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
