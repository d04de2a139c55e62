"""The memory of an input: room for several sets of its values, at addresses that change. And which tensors share memory."""

from __future__ import annotations

from random import SystemRandom

import torch
from torch import Tensor

_RANDOM = SystemRandom()

STEP_BYTES = 512
"""Addresses move by a multiple of this. torch's allocator aligns memory of a device to as many bytes."""

HOST_ROOM_BYTES, DEVICE_ROOM_BYTES = 2**13, 2**23
"""The addresses of an input lie within so many bytes. On a device they lie on several pages of 2 MiB: where an input lies in
the memory changes the time of a kernel by up to 2 %, and the rounds shall show the mean of many places, not one place."""


class Placement:
    """Memory for `sets` tensors like `like`, each at a multiple of STEP_BYTES from the others. `move` places them at random."""

    def __init__(self, like: Tensor, sets: int) -> None:
        self._shape, self._stride, self.sets = tuple(like.shape), like.stride(), sets
        bytes_ = spanned_elements(like) * like.element_size()
        self._set_elements = -(-bytes_ // STEP_BYTES) * STEP_BYTES // like.element_size()
        self._step_elements = STEP_BYTES // like.element_size()
        self._places = (HOST_ROOM_BYTES if like.device.type == "cpu" else DEVICE_ROOM_BYTES) // STEP_BYTES
        self._place = self._places - 1
        total = self._set_elements * sets + self._step_elements * self._places
        self._memory = torch.empty(total, dtype=like.dtype, device=like.device)

    def move(self) -> None:
        """Choose other addresses than before for all sets. Their values are lost."""
        self._place = (self._place + 1 + _RANDOM.randrange(self._places - 1)) % self._places

    def tensor(self, number: int) -> Tensor:
        """The tensor of one set. It is no view of another tensor, so compilers take it for an input of its own."""
        return self._view(number * self._set_elements, self._shape, self._stride)

    def stacked(self) -> Tensor:
        """The tensors of all sets as one, along a new first dimension."""
        return self._view(0, (self.sets, *self._shape), (self._set_elements, *self._stride))

    def _view(self, offset: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
        start = self._place * self._step_elements + offset
        return self._memory.new_empty(0).set_(self._memory.untyped_storage(), start, shape, stride)


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


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether an element of one tensor lies in the memory of the other."""
    (a_start, a_end), (b_start, b_end) = _bytes(a), _bytes(b)
    if max(a_start, b_start) >= min(a_end, b_end):
        return False
    start = min(a_start, b_start)
    occupied = torch.zeros(max(a_end, b_end) - start, dtype=torch.bool, device=a.device)
    _of_bytes(occupied, a, start).fill_(True)
    return bool(_of_bytes(occupied, b, start).any())


def overlaps_itself(x: Tensor) -> bool:
    """Whether two elements of a tensor lie in the same memory, as those of `expand` do."""
    reach = 1
    for stride, size in sorted((stride, size) for stride, size in zip(x.stride(), x.shape, strict=True) if size > 1):
        if stride < reach:
            break
        reach += (size - 1) * stride
    else:
        return False
    if x.numel() == 0:
        return False
    start, end = _bytes(x)
    occupied = torch.zeros(end - start, dtype=torch.bool, device=x.device)
    _of_bytes(occupied, x, start).fill_(True)
    return int(occupied.sum()) < x.nbytes


def _bytes(x: Tensor) -> tuple[int, int]:
    """The addresses from the first byte of a tensor to behind its last one; equal if it has no elements."""
    return x.data_ptr(), x.data_ptr() + spanned_elements(x) * x.element_size()


def _of_bytes(occupied: Tensor, x: Tensor, start: int) -> Tensor:
    """The elements of `occupied`, one for each byte of memory from `start`, that stand for the bytes of a tensor."""
    size = x.element_size()
    strides = [stride * size for stride in x.stride()]
    return occupied.as_strided((*x.shape, size), (*strides, 1), x.data_ptr() - start)


def is_view(output: Tensor, x: Tensor) -> bool:
    """Whether an output lies in the memory of an input, be it at another offset. False if it has no elements."""
    return output.numel() > 0 and output.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
