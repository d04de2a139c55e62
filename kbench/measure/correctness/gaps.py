"""The memory between the rows of an input, and before and behind it: a call must not write there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from kbench.measure.correctness.placement import overlaps_itself, spanned_elements

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of as many bytes as an element: torch can choose and compare them, whatever the dtype of the input."""

MOST_SPREAD = 16
"""An input with longer gaps is not looked at, because that would take too much memory: from its first to its last element, it
has more than this many times its own elements."""

MARGIN_BYTES = 2**14
"""So much memory before and behind an input is looked at."""

LARGEST_PADDED_BYTES = 2**28
"""Inputs of more bytes get no memory with margins: it takes as much as the input."""

ALIGNMENT = 512
"""An input with margins is as far from a multiple of so many bytes as it was before: kernels often depend on that."""


@dataclass(frozen=True)
class InputGap:
    """What lies around an input and between its elements, and is not part of it.

    memory   all elements from those before its first to those behind its last, as integers
    first    the position of its first element in `memory`
    last     the position behind its last element
    outside  which elements are not the input's
    before   what these held
    mark     what they hold until a call writes there: 1 in the dtype of the input, as an integer
    """

    name: str
    memory: Tensor
    first: int
    last: int
    outside: Tensor
    before: Tensor
    mark: Tensor

    def written(self) -> str:
        """Where a call has written; empty if nowhere."""
        found = (self.memory != self.mark) & self.outside
        for part, where in (
            (found[self.first : self.last], "between the rows"),
            (found[self.last :], "behind the end"),
            (found[: self.first], "before the beginning"),
        ):
            if part.any():
                return where
        return ""


def with_margins(inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The inputs, with the same values, in memory that goes on before and behind them. Inputs that are parts of one tensor stay
    where they are, and so do empty, expanded and very large ones."""
    owners = Counter(x.untyped_storage().data_ptr() for x in inputs)
    return tuple(
        _with_margins(x)
        if owners[x.untyped_storage().data_ptr()] == 1
        and x.numel()
        and not overlaps_itself(x)
        and spanned_elements(x) * x.element_size() <= LARGEST_PADDED_BYTES
        else x
        for x in inputs
    )


def _with_margins(x: Tensor) -> Tensor:
    size, span = x.element_size(), spanned_elements(x)
    margin = MARGIN_BYTES // size
    memory = x.new_empty(2 * margin + ALIGNMENT // size + span)
    start = margin + (x.data_ptr() - memory.data_ptr()) % ALIGNMENT // size
    placed = memory.new_empty(0).set_(memory.untyped_storage(), start, x.shape, x.stride())
    return placed.copy_(x)


@contextmanager
def marked_gaps(names: Sequence[str], inputs: Sequence[Tensor]) -> Iterator[list[InputGap]]:
    """The gaps and margins of the inputs that have any. They hold their mark inside the `with` block, and their own values
    after it. The mark is not 0, because a kernel without a mask often writes zeros.

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
    span, size = spanned_elements(x), x.element_size()
    if not x.numel() or overlaps_itself(x) or span > MOST_SPREAD * x.numel() or size not in _BITS:
        return None
    bits, margin, offset = _BITS[size], MARGIN_BYTES // size, int(x.storage_offset())
    first = min(offset, margin)
    count = first + span + min(x.untyped_storage().nbytes() // size - offset - span, margin)
    if count == x.numel():
        return None
    memory = x.detach().new_empty(0).set_(x.untyped_storage(), offset - first, (count,), (1,)).view(bits)
    outside = torch.ones(count, dtype=torch.bool, device=x.device)
    outside.as_strided(x.shape, x.stride(), first).fill_(False)
    mark = torch.ones(1, device=x.device).to(x.dtype).view(bits)
    return InputGap(name, memory, first, first + span, outside, memory[outside], mark)


def written_gap(gaps: Sequence[InputGap]) -> str | None:
    """What to report if a call has written outside of an input; None if it has not."""
    for gap in gaps:
        if where := gap.written():
            return f"wrote into memory {where} of its input {gap.name}, which may belong to others; mask the stores"
    return None
