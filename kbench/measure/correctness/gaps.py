"""The memory between the rows of an input, and before and behind it: a call must not write there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kbench.measure.correctness.placement import overlaps_itself, spanned_elements

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of as many bytes as an element: torch can choose and compare them, whatever the dtype of the input."""

MARGIN_BYTES = 2**14
"""So much memory before and behind an input is looked at."""

LARGEST_BYTES, MOST_SPREAD = 2**28, 16
"""Inputs of more bytes stay where they are: their copy takes as much memory. So do those with long gaps, which span more than
this many times their own elements."""

ALIGNMENT = 512
"""A copy is as far from a multiple of so many bytes as the input was: kernels often depend on that."""


@dataclass(frozen=True)
class MarkedInput:
    """An input with a mark in the memory around it and between its rows. The mark is not 0, because a kernel without a mask
    often writes zeros.

    tensor   the input
    memory   its memory and the margins, as integers; None if the input stays where it was
    mark     what all of it holds that is not the input's: 1 in the dtype of the input, as an integer
    outside  which elements of the memory are not the input's
    first    the position of the input in its memory
    """

    name: str
    tensor: Tensor
    memory: Tensor | None = None
    mark: Tensor | None = None
    outside: Tensor | None = None
    first: int = 0

    @classmethod
    def copy_of(cls, name: str, x: Tensor) -> MarkedInput:
        size, span = x.element_size(), spanned_elements(x)
        if not x.numel() or size not in _BITS or span * size > LARGEST_BYTES or span > MOST_SPREAD * x.numel():
            return cls(name, x)
        if overlaps_itself(x):
            return cls(name, x)
        margin = MARGIN_BYTES // size
        memory = x.new_empty(2 * margin + ALIGNMENT // size + span)
        bits, mark = memory.view(_BITS[size]), torch.ones(1, device=x.device).to(x.dtype).view(_BITS[size])
        bits.copy_(mark.expand_as(bits))
        start = margin + (x.data_ptr() - memory.data_ptr()) % ALIGNMENT // size
        tensor = memory.new_empty(0).set_(memory.untyped_storage(), start, x.shape, x.stride())
        outside = torch.ones_like(bits, dtype=torch.bool)
        outside.as_strided(x.shape, x.stride(), start).fill_(False)
        return cls(name, tensor.copy_(x), bits, mark, outside, start)

    def fault(self) -> str | None:
        """What to report if a call has written outside of the input; None if it has not."""
        if self.memory is None or self.outside is None:
            return None
        written, first = (self.memory != self.mark) & self.outside, self.first
        last = int(self.outside.logical_not().nonzero().max()) + 1
        for part, where in (
            (written[first:last], "between the rows"),
            (written[last:], "behind the end"),
            (written[:first], "before the beginning"),
        ):
            if part.any():
                return (
                    f"wrote into memory {where} of its input {self.name}, which may belong to others; mask the stores"
                )
        return None


def marked_inputs(names: Sequence[str], inputs: Sequence[Tensor]) -> list[MarkedInput]:
    """Copies of the inputs, with the same values and strides, in memory with marks. Inputs that are parts of one tensor stay
    where they are, and so do empty, expanded and very large ones."""
    owners = Counter(x.untyped_storage().data_ptr() for x in inputs)
    return [
        MarkedInput.copy_of(name, x) if owners[x.untyped_storage().data_ptr()] == 1 else MarkedInput(name, x)
        for name, x in zip(names, inputs, strict=True)
    ]
