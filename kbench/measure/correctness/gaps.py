"""The memory between the rows of a strided input: a call must not write there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of as many bytes as an element: torch can choose and compare them, whatever the dtype of the input."""

MOST_SPREAD = 16
"""An input with longer gaps is not looked at, because that would take too much memory: from its first to its last element, it
has more than this many times its own elements."""


@dataclass(frozen=True)
class InputGap:
    """What lies between the first and the last element of an input and is not part of it.

    memory   all elements from the first to the last, as integers
    outside  which of them are not the input's
    before   what these held
    mark     what they hold until a call writes there: 1 in the dtype of the input, as an integer
    """

    name: str
    memory: Tensor
    outside: Tensor
    before: Tensor
    mark: Tensor

    def written(self) -> bool:
        return bool((self.memory[self.outside] != self.mark).any())


@contextmanager
def marked_gaps(names: Sequence[str], inputs: Sequence[Tensor]) -> Iterator[list[InputGap]]:
    """The gaps of the inputs that have any, filled with their mark inside the `with` block, and as they were after it. The mark
    is not 0, because a kernel without a mask often writes zeros.

    Inputs that are parts of one tensor are left out: a gap of one may hold the elements of another.
    """
    owners = Counter(x.untyped_storage().data_ptr() for x in inputs)
    found = []
    for name, x in zip(names, inputs, strict=True):
        if owners[x.untyped_storage().data_ptr()] == 1 and (gap := _gap(name, x)):
            found.append(gap)
    try:
        for gap in found:
            gap.memory[gap.outside] = gap.mark
        yield found
    finally:
        for gap in found:
            gap.memory[gap.outside] = gap.before


def _gap(name: str, x: Tensor) -> InputGap | None:
    span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    dense = 0 in x.stride() or span <= x.numel()
    if dense or span > MOST_SPREAD * x.numel() or x.element_size() not in _BITS:
        return None
    bits = _BITS[x.element_size()]
    memory = x.detach().new_empty(0).set_(x.untyped_storage(), x.storage_offset(), (span,), (1,)).view(bits)
    outside = torch.ones(span, dtype=torch.bool, device=x.device)
    outside.as_strided(x.shape, x.stride()).fill_(False)
    mark = torch.ones(1, device=x.device).to(x.dtype).view(bits)
    return InputGap(name, memory, outside, memory[outside], mark)


def written_gap(gaps: Sequence[InputGap]) -> str | None:
    """What to report if a call has written into a gap; None if it has not."""
    for gap in gaps:
        if gap.written():
            return f"wrote into memory between the rows of its input {gap.name}, which may belong to others; mask the stores"
    return None
