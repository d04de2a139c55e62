"""What is kept of the outputs of a timed call: some rows, some elements, or all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any

import torch
from torch import Tensor

from kbench.measure.correctness.check import malformed
from kbench.measure.correctness.expected import Expected
from kbench.measure.salting.salts import Salt

ROWS_KEPT, WHOLE_KEPT = 4, 2
"""How many timed calls of a provider are judged: if some rows of the reference are enough for that, and if it takes the
whole reference."""

OTHER_ROWS = 16
"""Rows that are kept beside those that a salt has changed."""

ELEMENTS = 2**16
"""Elements that are kept of an output without the axis `rows`."""

LARGEST_BYTES = 2**26
"""Outputs that the operator judges itself are kept whole, unless they are larger than this."""


@dataclass(frozen=True)
class Kept:
    """What is kept of one timed call.

    number   which timed call of the provider it was, from 1
    salts    the salts of its inputs, in the order in which they were written
    earlier  those of the call before
    rows     the rows that are kept, in ascending order
    changed  the positions in `rows` of those that differ from the call before, or from the values that were checked
    outputs  what is kept of each output
    fault    how the outputs differ in form from what a call must deliver; then none is kept
    """

    number: int
    salts: Sequence[Salt]
    earlier: Sequence[Salt]
    rows: Sequence[int]
    changed: Sequence[int]
    outputs: Sequence[Tensor] = field(default_factory=list)
    fault: str | None = None


class Keeper:
    """Keeps parts of the outputs of one provider. `expected` is what a call must deliver for one set of inputs.

    Beside the rows that a salt has changed, it keeps the same random rows of every call, and the same random elements of
    outputs without rows.
    """

    def __init__(self, expected: Expected, random: Random) -> None:
        self._expected, definition = expected, expected.definition
        rows = definition.operator.rows
        self.dimensions = [None if rows is None else each.declared.dimension_of(rows) for each in definition.outputs]
        self.whole = definition.operator.check is not None
        self.in_rows = not self.whole and None not in self.dimensions
        counts = [shape[d] for shape, d in zip(expected.shapes, self.dimensions, strict=True) if d is not None]
        self._others = random.sample(range(counts[0]), min(counts[0], OTHER_ROWS)) if counts else []
        generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7)))
        self._places = [
            None
            if d is not None or prod(shape) <= ELEMENTS
            else torch.randint(prod(shape), (ELEMENTS,), generator=generator)
            for shape, d in zip(expected.shapes, self.dimensions, strict=True)
        ]

    @property
    def limit(self) -> int:
        """How many calls to keep."""
        pairs = zip(self._expected.shapes, self._expected.definition.outputs, strict=True)
        if self.whole and sum(prod(shape) * each.dtype.itemsize for shape, each in pairs) > LARGEST_BYTES:
            return 0
        return ROWS_KEPT if self.in_rows else WHOLE_KEPT

    def keep(
        self,
        number: int,
        inputs: Sequence[Tensor],
        found: Sequence[Any],
        salts: Sequence[Salt],
        earlier: Sequence[Salt],
    ) -> Kept:
        """Copy parts of the outputs of a call."""
        touched = {row for salt in (*salts, *earlier) for row in salt.rows}
        rows = sorted({*touched, *self._others})
        changed = [at for at, row in enumerate(rows) if row in touched]
        if fault := malformed(self._expected, inputs, found):
            return Kept(number, salts, earlier, rows, changed, fault=fault)
        outputs = [self.part(position, x, rows) for position, x in enumerate(found)]
        return Kept(number, salts, earlier, rows, changed, outputs)

    def part(self, position: int, output: Tensor, rows: Sequence[int]) -> Tensor:
        """A copy of what is kept of an output, or of a tensor of its shape."""
        dimension, places = self.dimensions[position], self._places[position]
        if self.whole:
            return output.detach().clone()
        if dimension is not None:
            return select_rows(output.detach(), dimension, rows)
        if places is None:
            return output.detach().clone()
        return _bits(output.detach()).take(places.to(output.device)).view(output.dtype)


def select_rows(x: Tensor, dimension: int, rows: Sequence[int]) -> Tensor:
    """A copy of these rows."""
    return _bits(x).index_select(dimension, torch.tensor(rows, dtype=torch.int64, device=x.device)).view(x.dtype)


def _bits(x: Tensor) -> Tensor:
    """8-bit floating-point numbers as integers, because torch selects none of the former."""
    return x.view(torch.uint8) if x.dtype.is_floating_point and x.dtype.itemsize == 1 else x
