"""What a call must deliver for one set of inputs: shapes, exact values, and the scale of their errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod
from typing import TypeVar

import torch
from torch import Tensor

from kbench.measure.correctness.definition import Definition, exactly
from kbench.measure.correctness.error_scale import SECOND_TRIALS, SLICE_ELEMENTS, TRIALS, mean_squares
from kbench.measure.correctness.memory import equal, same_values

T = TypeVar("T", Tensor, Tensor | None)

KEPT_BYTES = 2**26
"""Expected outputs of one set of inputs are kept if they take at most this many bytes, however little memory is free."""

CONSTANT = "the reference returns the same for each draw of the inputs, so a constant passes"

KEPT_SHARE, EXPECTED_SETS = 0.35, 3
"""Share of the free memory that the expected outputs of a case may take, and for how many sets of inputs there are some. kbench
computes them once, and again for each check if they do not fit."""

CHUNK_ELEMENTS, CHUNK_LEAST, CHUNK_SHARE = SLICE_ELEMENTS, 2**20, 16
"""Outputs are computed in slices, if rows are independent, and compared in slices of a sixteenth of the largest tensor, at
least 2^20 and at most 2^25 elements. So the float64 temporaries of a large case are small, and a device has few launches."""

FEW_ROWS = 0.25
"""Scales are estimated again for the rows that need it alone if these are at most this share of all."""

AGREE = 1e-6
"""A reference may differ by this share of the scale between two calls: float64 sums in another order."""


def keep_bytes(free_bytes: int | None) -> int:
    """How many bytes of expected outputs a worker may keep for one set of inputs."""
    return max(KEPT_BYTES, int((free_bytes or 0) * KEPT_SHARE) // EXPECTED_SETS)


def slice_elements(largest: int) -> int:
    """The most elements of a slice of a tensor with `largest` elements."""
    return min(CHUNK_ELEMENTS, max(CHUNK_LEAST, -(-largest // CHUNK_SHARE)))


@dataclass(frozen=True)
class OutputPart:
    """A slice of an output, or all of it.

    position   index of the output among those of the definition
    dimension  the dimension that `start` and `stop` count along; None for all of the output
    reference  the exact values: float64, or the output's own dtype if that is not floating-point
    scale      the magnitude at which errors are judged: float64, never below |reference|. None unless floating-point
    """

    position: int
    dimension: int | None
    start: int
    stop: int
    reference: Tensor
    scale: Tensor | None

    def of(self, output: Tensor) -> Tensor:
        """The same part of an output."""
        return output if self.dimension is None else output.narrow(self.dimension, self.start, self.stop - self.start)

    def narrowed(self, dimension: int, start: int, count: int) -> OutputPart:
        """A slice of this part, from its row `start` on, along the same dimension if it is a slice."""
        first = self.start + start
        scale = None if self.scale is None else self.scale.narrow(dimension, start, count)
        reference = self.reference.narrow(dimension, start, count)
        return OutputPart(self.position, dimension, first, first + count, reference, scale)


class Expected:
    """What a call must deliver for `inputs`, which must not change. Every method raises OperatorFault.

    Values are computed in slices along the operator's `rows`; a small case is one slice. A gradient that has no such axis is
    the sum over the slices. Values of up to `keep_bytes` are computed once and kept for all providers of a case. Larger ones
    are computed again for every check. `scales` are scales of the whole outputs to take in place of an estimate, which computes
    the reference `trials` times. With `shapes`, those of the outputs are known and need no values.

    row_dimensions  for each output the dimension of its rows; None if it has none
    """

    def __init__(
        self,
        definition: Definition,
        inputs: Sequence[Tensor],
        keep_bytes: int = KEPT_BYTES,
        scales: Sequence[Tensor | None] | None = None,
        trials: int = TRIALS,
        shapes: tuple[tuple[int, ...], ...] | None = None,
    ) -> None:
        self.definition, self.inputs = definition, inputs
        self._keep_bytes, self._scales, self._trials = keep_bytes, scales, trials
        self._kept_parts: list[OutputPart] | None = None
        # by rows and number of trials
        self._kept_estimates: dict[tuple[range, int], dict[int, Tensor]] = {}
        self._shapes = shapes
        rows = definition.operator.rows
        self._input_row_dimensions = [x.dimension_of(rows) for x in definition.declared_inputs]
        self.row_dimensions = [output.declared.dimension_of(rows) for output in definition.outputs]
        pairs = zip(inputs, self._input_row_dimensions, strict=True)
        self._rows = next((x.shape[dimension] for x, dimension in pairs if dimension is not None), 1)

    def of(self, inputs: Sequence[Tensor], rows: Tensor | None = None, scales: bool = True) -> Expected:
        """The same for other inputs, or for some rows of them; with `scales`, those that are kept."""
        kept_scales = [part.scale for part in self._kept_parts] if self._kept_parts and scales else None
        if rows is not None:
            inputs = _select(inputs, self._input_row_dimensions, rows)
            if kept_scales is not None:
                kept_scales = _select(kept_scales, self.row_dimensions, rows)
        return Expected(self.definition, inputs, self._keep_bytes, kept_scales)

    def compute(self) -> None:
        """Compute the shapes now, and the values if they fit into memory, or else the first slice."""
        next(self.parts())

    def same_as(self, other: Expected) -> bool:
        """Whether the outputs, if they have elements, are the same as those for other inputs."""
        pairs = zip(self.values(), other.values(), strict=True)
        return all(equal(a.reference, b.reference) for a, b in pairs) and any(map(prod, self.shapes))

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes that the outputs must have."""
        if self._shapes is None:
            self.compute()
        assert self._shapes is not None
        return self._shapes

    def parts(self) -> Iterator[OutputPart]:
        """All outputs, in one part each or in slices. With a judge of the operator's own: one part each."""
        if self._kept_parts is None:
            slices = self._slices()
            first = next(slices)
            if self._bytes > self._keep_bytes:
                yield first
                yield from slices
                return
            self._kept_parts = self._joined(chain([first], slices))
        yield from self._kept_parts

    def values(self) -> Iterable[OutputPart]:
        """The same, without scales unless they are kept: to estimate them takes several times as long."""
        return self._kept_parts or self._slices(scaled=False)

    def pieces(self, part: OutputPart) -> Iterator[OutputPart]:
        """A part in slices, along the rows if it has some, so that temporaries are small."""
        count = part.reference.numel()
        most = -(-count // slice_elements(count))
        if most < 2:
            yield part
            return
        shape, along = part.reference.shape, self.row_dimensions[part.position]
        if along is None:
            along = 0 if shape[0] >= most else shape.index(max(shape))
        step = -(-shape[along] // most)
        for start in range(0, shape[along], step):
            yield part.narrowed(along, start, min(step, shape[along] - start))

    def better_scales(self, part: OutputPart, doubtful: Tensor) -> Iterator[Tensor]:
        """The scale of a part, estimated again from more trials where `doubtful`, a mask of few elements, holds. It is never
        smaller than the first estimate. Scales that were given have no better ones."""
        if self._scales is not None:
            return
        assert part.scale is not None
        for trials in SECOND_TRIALS:
            yield torch.maximum(part.scale, self._estimate(part, doubtful, trials))

    def _estimate(self, part: OutputPart, doubtful: Tensor, trials: int) -> Tensor:
        """Another estimate of the scale of a part: of its few doubtful rows, or of all rows."""
        position, dimension = part.position, self.row_dimensions[part.position]
        if dimension is None:
            return part.of(self._shared_estimates(range(self._rows), trials)[position])
        count = doubtful.shape[dimension]
        rows = doubtful.movedim(dimension, 0).reshape(count, -1).any(1).nonzero().flatten()
        if len(rows) > FEW_ROWS * count:
            return self._shared_estimates(range(part.start, part.start + count), trials)[position]
        assert part.scale is not None
        scale = self._estimates(rows + part.start, trials)[position]
        return part.scale.index_copy(dimension, rows, scale.double())

    def _shared_estimates(self, rows: range, trials: int) -> dict[int, Tensor]:
        """See `_estimates`. Other slices and providers will want the same."""
        if (rows, trials) not in self._kept_estimates:
            if self._kept_parts is None:
                self._kept_estimates = {key: x for key, x in self._kept_estimates.items() if key[0] == rows}
            self._kept_estimates[rows, trials] = self._estimates(rows, trials)
        return self._kept_estimates[rows, trials]

    def _estimates(self, rows: Tensor | range, trials: int) -> dict[int, Tensor]:
        """The scales of these rows by position, estimated again, with as many digits as an estimate has."""
        selected, slices = _select(self.inputs, self._input_row_dimensions, rows), dict[int, list[Tensor]]()
        for part in Expected(self.definition, selected, 0, trials=trials).parts():
            if part.scale is not None:
                slices.setdefault(part.position, []).append(part.scale.bfloat16())
        return {
            position: scales[0] if len(scales) == 1 else torch.cat(scales, self.row_dimensions[position] or 0)
            for position, scales in slices.items()
        }

    def check_again(self, references: Sequence[Tensor]) -> None:
        """Raises OperatorFault if another call of the reference on the same inputs gave other values."""
        if name := self._differing(references):
            problem = f"reference returned two different results for {name} on the same inputs"
            raise self.definition.fault(problem, "if several answers can be right for the same inputs, declare check=")

    def check_rows(self) -> None:
        """Raises OperatorFault if the reference returns other values on half of the rows than on all of them."""
        if self._rows < 2 or len(self._bounds) > 1:
            return
        half, scales = -(-self._rows // 2), [part.scale for part in self.parts()]
        halves = Expected(self.definition, self.inputs, scales=scales, shapes=self.shapes)
        halves._bounds = [range(half), range(half, self._rows)]
        if name := self._differing([part.reference for part in halves._joined(halves._slices())]):
            problem = f"the values that reference returned for {name} changed when it was given only half of the rows"
            raise self.definition.fault(problem, self._rows_advice)

    def _differing(self, references: Sequence[Tensor]) -> str | None:
        """The first output of which these values are others, but for the order of float64 sums."""
        for part in self.parts():
            values = part.of(references[part.position])
            same = same_values(values, part.reference)
            if part.scale is not None:
                same |= (values - part.reference).abs() <= AGREE * part.scale
            if not same.all():
                return self.definition.outputs[part.position].name
        return None

    @property
    def _rows_advice(self) -> str:
        return f"the rows are not independent; leave out rows={self.definition.operator.rows!r}"

    @property
    def _bytes(self) -> int:
        """The bytes of all values and scales, at most: 8 an element in both."""
        pairs = zip(self.shapes, self.definition.outputs, strict=True)
        return sum(prod(shape) * (16 if output.dtype.is_floating_point else 8) for shape, output in pairs)

    def _joined(self, slices: Iterable[OutputPart]) -> list[OutputPart]:
        """All outputs in one part each, in order. Slices would leave gaps in memory."""
        joined: dict[int, OutputPart] = {}
        for part in slices:
            position = part.position
            if part.dimension is None:
                joined[position] = part
                continue
            if position not in joined:
                shape = self.shapes[position]
                scale = None if part.scale is None else part.scale.new_empty(shape)
                joined[position] = OutputPart(position, None, 0, 0, part.reference.new_empty(shape), scale)
            whole = joined[position]
            part.of(whole.reference).copy_(part.reference)
            if whole.scale is not None and part.scale is not None:
                part.of(whole.scale).copy_(part.scale)
        return [joined[position] for position in sorted(joined)]

    @cached_property
    def _bounds(self) -> list[range]:
        """The rows of each slice. The operator's own judge gets the outputs whole."""
        elements = self._elements
        most = slice_elements(elements)
        if self.definition.operator.check is not None or self._rows < 2 or elements <= most:
            return [range(self._rows)]
        step = max(1, most * self._rows // elements)
        return [range(start, min(start + step, self._rows)) for start in range(0, self._rows, step)]

    @property
    def _elements(self) -> int:
        """The elements of the largest tensor that slices make smaller."""
        read = [
            x.numel()
            for x, dimension in zip(self.inputs, self._input_row_dimensions, strict=True)
            if dimension is not None
        ]
        computed = [
            prod(
                size if d != dimension else self._rows for d, size in enumerate(self.definition.declared_shape(output))
            )
            for output, dimension in zip(self.definition.outputs, self.row_dimensions, strict=True)
            if dimension is not None
        ]  # of the rows that the inputs have, which may be fewer than those of the case
        return max(*read, *computed, 1, 1)

    def _slices(self, *, scaled: bool = True) -> Iterator[OutputPart]:
        sums: dict[int, tuple[Tensor, Tensor | None]] = {}
        whole = len(self._bounds) == 1
        for rows in self._bounds:
            inputs = _select(self.inputs, self._input_row_dimensions, rows)
            references = self.definition.expected(exactly(inputs), "" if whole else " (on some rows, because of rows=)")
            shapes = tuple(
                tuple(x.shape) if whole else tuple(self._rows if d == dimension else n for d, n in enumerate(x.shape))
                for x, dimension in zip(references, self.row_dimensions, strict=True)
            )
            if not whole:
                self._check_slice(references, shapes, len(rows))
            self._shapes = shapes
            squares = self._squares(references, inputs, rows) if scaled else [None] * len(references)
            for position, (reference, square, dimension) in enumerate(
                zip(references, squares, self.row_dimensions, strict=True)
            ):
                if whole or dimension is not None:
                    along, scale = None if whole else dimension, self._scale(reference, square, inputs, scaled)
                    yield OutputPart(position, along, rows.start, rows.stop, reference, scale)
                elif position not in sums:
                    sums[position] = reference.clone(), square  # a reference may return what it was given
                else:
                    for total, added in zip(sums[position], (reference, square), strict=True):
                        if total is not None and added is not None:
                            total += added
        for position, (reference, square) in sums.items():
            yield OutputPart(position, None, 0, 0, reference, self._scale(reference, square, self.inputs, scaled))

    def _check_slice(self, references: Sequence[Tensor], shapes: tuple[tuple[int, ...], ...], rows: int) -> None:
        """Raises OperatorFault if the outputs of a slice do not fit to those of the slices before."""
        outputs = zip(self.definition.outputs, references, self.row_dimensions, strict=True)
        for (output, x, dimension), shape, before in zip(outputs, shapes, self._shapes or shapes, strict=True):
            lacks_rows = dimension is not None and (x.dim() <= dimension or x.shape[dimension] != rows)
            if lacks_rows or shape != before:
                problem = f"reference returned shape {tuple(x.shape)} for {output.name} when it was given {rows} rows"
                raise self.definition.fault(problem, self._rows_advice)

    def _squares(self, references: Sequence[Tensor], inputs: Sequence[Tensor], rows: range) -> Sequence[Tensor | None]:
        """The squares of the scales of these rows, without |reference|, or this slice's part of a sum over the slices. None
        for an output with a scale of the operator's own, without need for one, or with a judge."""
        if self._scales is not None:
            slices = zip(_select(self._scales, self.row_dimensions, rows), self.row_dimensions, strict=True)
            parts = len(self._bounds)
            return [x if x is None else x.square() / (parts if dimension is None else 1) for x, dimension in slices]
        needed = [
            reference.is_floating_point() and not output.judged and output.scale_estimated
            for reference, output in zip(references, self.definition.outputs, strict=True)
        ]
        if not any(needed):
            return [None] * len(references)
        return mean_squares(self.definition, references, inputs, needed, self._trials)

    def _scale(self, reference: Tensor, square: Tensor | None, inputs: Sequence[Tensor], scaled: bool) -> Tensor | None:
        """The scale, which may take the memory of its square."""
        operator = self.definition.operator
        if square is not None:
            scale = square.detach().sqrt_()
            return torch.maximum(scale, reference.detach().abs(), out=scale)
        if scaled and operator.scale is not None and operator.check is None and reference.is_floating_point():
            return self.definition.scale(reference, exactly(inputs))
        return None


def _select(tensors: Sequence[T], dimensions: Sequence[int | None], rows: Tensor | range) -> list[T]:
    """These rows of the tensors that have a dimension of rows; the others whole."""
    pairs = zip(tensors, dimensions, strict=True)
    return [x if x is None or d is None else select_rows(x, d, rows) for x, d in pairs]


def select_rows(x: Tensor, dimension: int, rows: Tensor | range) -> Tensor:
    """A copy of these rows, or a view of a range. torch selects no 8-bit floating-point numbers."""
    if isinstance(rows, range):
        return x.narrow(dimension, rows.start, len(rows))
    bits = x.view(torch.uint8) if x.dtype.is_floating_point and x.dtype.itemsize == 1 else x
    return bits.index_select(dimension, rows).view(x.dtype)
