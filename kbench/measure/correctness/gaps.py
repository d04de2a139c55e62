"""The memory between the rows of a strided input: a call must not write there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of as many bytes as an element: torch can choose and compare them, whatever the dtype of the input."""


MOST_SPREAD = 16
"""An input whose elements are spread over more than so many times their memory is not looked at: that would take too much."""


@dataclass(frozen=True)
class InputGap:
    """What lies between the first and the last element of an input and is not part of it.

    memory   all elements from the first to the last, as integers
    outside  which of them are not the input's
    mark     what they hold until a call writes there: 1 in the dtype of the input, as an integer
    """

    name: str
    memory: Tensor
    outside: Tensor
    mark: Tensor

    def written(self) -> bool:
        return bool((self.memory[self.outside] != self.mark).any())


def marked_gaps(names: Sequence[str], inputs: Sequence[Tensor]) -> list[InputGap]:
    """The gaps of the inputs that have any, filled with their mark. It is not 0: a kernel without a mask often writes zeros."""
    found = []
    for name, x in zip(names, inputs, strict=True):
        span = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
        dense = 0 in x.stride() or span <= x.numel()
        if dense or span > MOST_SPREAD * x.numel() or x.element_size() not in _BITS:
            continue
        memory = x.detach().new_empty(0).set_(x.untyped_storage(), x.storage_offset(), (span,), (1,))
        outside = torch.ones(span, dtype=torch.bool, device=x.device)
        outside.as_strided(x.shape, x.stride()).fill_(False)
        bits = _BITS[x.element_size()]
        gap = InputGap(name, memory.view(bits), outside, torch.ones(1, device=x.device).to(x.dtype).view(bits))
        gap.memory[outside] = gap.mark
        found.append(gap)
    return found


def written_gap(gaps: Sequence[InputGap]) -> str | None:
    """What to report if a call has written into a gap; None if it has not."""
    name = next((gap.name for gap in gaps if gap.written()), None)
    return (
        name and f"wrote into memory between the rows of its input {name}, which may belong to others; mask the stores"
    )
