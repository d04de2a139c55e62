"""What is kept of the outputs of a timed call: some rows, some elements, or all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from math import prod
from random import Random
from typing import Any

import torch
from torch import Tensor

from kbench.measure.correctness.check import malformed
from kbench.measure.correctness.expected import Expected, OutputPart
from kbench.measure.definition.definition import Definition, Output
from kbench.measure.salting.salts import SALTED_ROWS, Salt

OTHER_ROWS = 16
"""The rows that kbench keeps of a timed call beside those that a salt has changed."""

MOST_ROWS = 4 * SALTED_ROWS + OTHER_ROWS
"""The most rows of an output that are kept of a timed call: those of two salts and of two before them, and others."""

ROWS_KEPT, WHOLE_KEPT = 4, 2
"""How many timed calls of a provider are judged: if some rows of the reference are enough for that, and if it takes the
whole reference."""

ELEMENTS_KEPT = 2**16
"""Elements that are kept of an output without the axis `rows`."""

LARGEST_KEPT = 2**26
"""Outputs that the operator judges itself are kept whole, unless they take more bytes than this. If the rows to keep of an
output take more, some elements are kept instead."""


@dataclass(frozen=True)
class Kept:
    """What is kept of one timed call.

    number   which timed call of the provider it was, from 1
    salts    the salts of its inputs, in the order in which they were written
    earlier  those of some calls before, the last one first
    rows     the rows that are kept
    outputs  what is kept of each output
    fault    how the outputs differ in form from what a call must deliver; then none is kept
    """

    number: int
    salts: Sequence[Salt]
    earlier: Sequence[Sequence[Salt]]
    rows: Sequence[int]
    outputs: Sequence[Tensor] = field(default_factory=list)
    fault: str | None = None


class Keeper:
    """Keeps parts of the outputs of one provider. `expected` is what a call must deliver for one set of inputs.

    Beside the rows that a salt has changed, it keeps the same random rows of every call, and the same random elements of
    outputs without rows.

    shapes      the shapes of the outputs
    dimensions  for each output the dimension along which rows are kept; None if elements are
    places      for each output the places of the elements in it, as if it were flat; None for outputs that are kept otherwise
    whole       whether the outputs are kept as a whole
    in_rows     whether rows of all outputs are kept
    """

    def __init__(self, expected: Expected, random: Random) -> None:
        self._expected, definition = expected, expected.definition
        self.dimensions = [
            _rows_of(definition, each, shape) for each, shape in zip(definition.outputs, expected.shapes, strict=True)
        ]
        self.shapes = expected.shapes
        self.whole = definition.operator.check is not None
        self.in_rows = not self.whole and None not in self.dimensions
        counts = [shape[d] for shape, d in zip(expected.shapes, self.dimensions, strict=True) if d is not None]
        self._others = random.sample(range(counts[0]), min(counts[0], OTHER_ROWS)) if counts else []
        generator = torch.Generator("cpu").manual_seed(int.from_bytes(os.urandom(7)))
        self.places = [
            None
            if self.whole or d is not None
            else torch.arange(prod(shape), device="cpu")
            if prod(shape) <= ELEMENTS_KEPT
            else torch.randint(prod(shape), (ELEMENTS_KEPT,), generator=generator, device="cpu")
            for shape, d in zip(expected.shapes, self.dimensions, strict=True)
        ]
        device = expected.inputs[
            0
        ].device  # the indices lie there from now on: to copy them, the host waits for the device
        self._others_there = torch.tensor(self._others, dtype=torch.int64, device=device)
        self._places_there = [None if places is None else places.to(device) for places in self.places]

    @property
    def limit(self) -> int:
        """How many calls to keep."""
        pairs = zip(self.shapes, self._expected.definition.outputs, strict=True)
        if self.whole and sum(prod(shape) * each.dtype.itemsize for shape, each in pairs) > LARGEST_KEPT:
            return 0
        return ROWS_KEPT if self.in_rows else WHOLE_KEPT

    def keep(
        self,
        number: int,
        inputs: Sequence[Tensor],
        found: Sequence[Any],
        salts: Sequence[Salt],
        earlier: Sequence[Sequence[Salt]],
    ) -> Kept:
        """Copy parts of the outputs of a call. This does not wait for the device."""
        combs = [salt.rows for salt in (*salts, *chain(*earlier[:1]))]
        rows = [*chain.from_iterable(combs), *self._others]
        if fault := malformed(self._expected, inputs, found):
            return Kept(number, salts, earlier, rows, fault=fault)
        outputs = [self._part(position, x.detach(), combs) for position, x in enumerate(found)]
        return Kept(number, salts, earlier, rows, outputs)

    def _part(self, position: int, output: Tensor, combs: Sequence[range]) -> Tensor:
        dimension, places = self.dimensions[position], self._places_there[position]
        if places is not None:
            return take(output, places)
        if dimension is None or self.whole:
            return output.clone()
        x, before = _bits(output), (slice(None),) * dimension
        some = [x[*before, slice(rows.start, rows.stop, rows.step)] for rows in combs]
        return torch.cat([*some, x.index_select(dimension, self._others_there)], dimension).view(output.dtype)

    def tidy(self, call: Kept) -> Kept:
        """The call with each of its rows once, in ascending order."""
        at = {row: position for position, row in enumerate(call.rows)}
        rows = sorted(at)
        order = [at[row] for row in rows]
        outputs = [
            x if dimension is None or self.whole else select_rows(x, dimension, order)
            for x, dimension in zip(call.outputs, self.dimensions, strict=False)
        ]
        return replace(call, rows=rows, outputs=outputs)

    def elements(self, part: OutputPart) -> tuple[Tensor, OutputPart]:
        """Which of the elements that are kept of an output lie in a part of it, and the reference of these alone."""
        places, shape, dimension = self.places[part.position], self.shapes[part.position], part.dimension
        assert places is not None
        chosen = torch.arange(len(places), device="cpu")
        if dimension is not None:  # the part is a slice: some of the places, which are others in the slice
            inner, size = prod(shape[dimension + 1 :]), part.stop - part.start
            along = places // inner % shape[dimension]
            chosen = ((along >= part.start) & (along < part.stop)).nonzero().flatten()
            places, along = places[chosen], along[chosen] - part.start
            places = (places // (inner * shape[dimension]) * size + along) * inner + places % inner
        scale = None if part.scale is None else take(part.scale, places)
        return chosen, OutputPart(part.position, None, 0, 0, take(part.reference, places), scale)


def take(x: Tensor, places: Tensor) -> Tensor:
    """A copy of some elements of a tensor, as if it were flat."""
    return _bits(x).take(places.to(x.device)).view(x.dtype)


def _rows_of(definition: Definition, output: Output, shape: Sequence[int]) -> int | None:
    """The dimension of an output along which rows are kept; None if it has none, or if its rows are too long."""
    rows = definition.operator.rows
    dimension = None if rows is None else output.declared.dimension_of(rows)
    if dimension is None:
        return None
    most = min(shape[dimension], MOST_ROWS)
    return dimension if most * prod(shape) * output.dtype.itemsize <= LARGEST_KEPT * shape[dimension] else None


def select_rows(x: Tensor, dimension: int, rows: Sequence[int]) -> Tensor:
    """A copy of these rows."""
    return _bits(x).index_select(dimension, torch.tensor(rows, dtype=torch.int64, device=x.device)).view(x.dtype)


def _bits(x: Tensor) -> Tensor:
    """8-bit floating-point numbers as integers, because torch selects none of the former."""
    return x.view(torch.uint8) if x.dtype.is_floating_point and x.dtype.itemsize == 1 else x
