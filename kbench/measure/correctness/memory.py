"""The memory of inputs: sets of values at addresses that change, tensors that share memory, and marks around an input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import SystemRandom
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

_RANDOM = SystemRandom()

STEP_BYTES = 512
"""torch's allocator aligns memory of a device to as many bytes, and kernels often depend on the alignment. So addresses move by
a multiple of this, and a copy is as far from a multiple as the input was."""

HOST_ROOM_BYTES, DEVICE_ROOM_BYTES = 2**13, 2**23
"""The addresses of an input lie within so many bytes. On a device they lie on several pages of 2 MiB: where an input lies in
the memory changes the time of a kernel by up to 2 %, and the rounds shall show the mean of many places, not one place."""

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of as many bytes as an element: torch can choose and compare them, whatever the dtype of the input."""

MARGIN_BYTES = 2**14
"""So much memory before and behind an input is looked at."""

LARGEST_BYTES, MOST_SPREAD = 2**28, 16
"""Inputs of more bytes stay where they are, and those that span more than so many times their own elements."""


class Placement:
    """Memory for `sets` tensors like `like`, one behind the other."""

    def __init__(self, like: Tensor, sets: int) -> None:
        self._shape, self._stride, self.sets = tuple(like.shape), like.stride(), sets
        self._step_elements = STEP_BYTES // like.element_size()
        self._set_elements = -(-spanned_elements(like) // self._step_elements) * self._step_elements
        self._places = (HOST_ROOM_BYTES if like.device.type == "cpu" else DEVICE_ROOM_BYTES) // STEP_BYTES
        self._place = self._places - 1
        total = self._set_elements * sets + self._step_elements * self._places
        self._memory = torch.empty(total, dtype=like.dtype, device=like.device)

    def move(self) -> Tensor:
        """The tensors of all sets as one, along a new first dimension, at another address than before, chosen at random. Their
        values are lost."""
        self._place = (self._place + 1 + _RANDOM.randrange(self._places - 1)) % self._places
        shape, stride = (self.sets, *self._shape), (self._set_elements, *self._stride)
        return _tensor_in(self._memory, self._place * self._step_elements, shape, stride)


def _tensor_in(memory: Tensor, start: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """A tensor at a place in a memory, no view for torch: writing to it counts as no change of another."""
    return memory.new_empty(0).set_(memory.untyped_storage(), start, shape, stride)


def separate(x: Tensor) -> Tensor:
    """A tensor in the same place. It is no view of another tensor, so compilers take it for an input of its own. Its storage
    begins where it does: torch.compile makes slower code if the offset varies, because it cannot tell that the tensor is
    aligned."""
    start, size = int(x.storage_offset()) * x.element_size(), spanned_elements(x) * x.element_size()
    return x.new_empty(0).set_(x.untyped_storage()[start : start + size], 0, x.shape, x.stride())


Location = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Where a tensor is: its address, shape and strides."""


def location_of(x: Tensor) -> Location:
    return x.data_ptr(), tuple(x.shape), x.stride()


def moved_away(subject: str, name: str) -> str:
    """What to report of a provider that gives a tensor other memory: its caller has the old memory."""
    return f"gave {subject} other memory, as {name}.data = ... does; leave the tensor where it is"


def spanned_elements(x: Tensor) -> int:
    """The elements from the first to the last one of a tensor, with what lies between them."""
    if x.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))


def equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same shape and hold the same values. NaN equals NaN."""
    if a.shape != b.shape:
        return False
    # torch compares no 8-bit floating-point numbers
    if a.dtype.is_floating_point and a.dtype.itemsize == 1:
        return torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    return torch.equal(a, b) or bool(same_values(a, b).all())


def same_values(a: Tensor, b: Tensor) -> Tensor:
    """Where two tensors hold the same value. NaN equals NaN."""
    return (a == b) | (a.isnan() & b.isnan())


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether an element of one tensor lies in the memory of the other. numpy knows it from addresses and strides, and reads no
    memory: it may be that of a device."""
    return bool(np.shares_memory(_layout(a), _layout(b)))


def _layout(x: Tensor) -> Any:
    """A numpy array where the tensor lies. Nobody may read it."""
    size = x.element_size()
    places = {"data": (x.data_ptr(), True), "shape": x.shape, "strides": tuple(stride * size for stride in x.stride())}
    return np.asarray(SimpleNamespace(__array_interface__={"version": 3, "typestr": f"|V{size}", **places}))


def overlaps_itself(x: Tensor) -> bool:
    """Whether two elements of a tensor lie in the same memory, as those of `expand` do."""
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1):
        if stride < reach:
            break
        reach += (size - 1) * stride
    else:
        return False
    occupied = torch.zeros(spanned_elements(x), dtype=torch.bool, device=x.device)
    occupied.as_strided(x.shape, x.stride()).fill_(True)
    return int(occupied.sum()) < x.numel()


def is_view(output: Tensor, x: Tensor) -> bool:
    """Whether an output lies in the memory of an input, also at another offset, if it has elements."""
    return output.numel() > 0 and output.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


Fault = Callable[[], str | None]
"""What to report if a call has written outside of an input; None if it has not. The values of the input are lost then."""


def marked_inputs(names: Sequence[str], inputs: Sequence[Tensor]) -> tuple[list[Tensor], list[Fault]]:
    """Copies of the inputs, with the same values and strides, in memory with marks. Inputs that are parts of one tensor stay
    where they are, and so do empty, expanded and very large ones."""
    owners = Counter(x.untyped_storage().data_ptr() for x in inputs)
    marked, faults = list(inputs), list[Fault]()
    for number, (name, x) in enumerate(zip(names, inputs, strict=True)):
        size, span = x.element_size(), spanned_elements(x)
        too_large = span * size > LARGEST_BYTES or span > MOST_SPREAD * x.numel()
        apart = owners[x.untyped_storage().data_ptr()] == 1 and not too_large
        if apart and x.numel() and size in INTEGERS and not overlaps_itself(x):
            marked[number], fault = _marked_copy(name, x)
            faults.append(fault)
    return marked, faults


def _marked_copy(name: str, x: Tensor) -> tuple[Tensor, Fault]:
    """A copy with a mark around it and between its rows. It is 1 and not 0: a kernel without a mask often writes zeros."""
    size, span = x.element_size(), spanned_elements(x)
    margin = MARGIN_BYTES // size
    memory = torch.full((2 * margin + STEP_BYTES // size + span,), 1, dtype=x.dtype, device=x.device)
    bits = memory.view(INTEGERS[size])
    mark = bits[:1].clone()
    start = margin + (x.data_ptr() - memory.data_ptr()) % STEP_BYTES // size
    copy = _tensor_in(memory, start, x.shape, x.stride()).copy_(x)

    def fault() -> str | None:
        memory.as_strided(x.shape, x.stride(), start).fill_(1)
        written, end = bits != mark, start + span
        for part, where in (
            (written[start:end], "between the rows"),
            (written[end:], "behind the end"),
            (written[:start], "before the beginning"),
        ):
            if part.any():
                return f"wrote into memory {where} of its input {name}, which may belong to others; mask the stores"
        return None

    return copy, fault
