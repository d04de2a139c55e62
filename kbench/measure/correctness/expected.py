"""What a call must deliver for one set of inputs: shapes, exact values, and the scale of their errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from kbench.measure.correctness.error_scale import SECOND_TRIALS, mean_squares
from kbench.measure.definition.definition import Definition, exactly

KEPT_BYTES = 2**26
"""Expected outputs of one set of inputs are kept if they take at most this many bytes, however little memory is free."""

KEPT_MOST = 2**33
"""Expected outputs of one set of inputs are not kept if they take more bytes, however much memory is free."""

KEPT_SHARE, EXPECTED_SETS = 0.35, 3
"""Share of the free memory that the expected outputs of a case may take, and for how many sets of inputs there are some. kbench
computes them once, and again for each check if they do not fit."""

CHUNK_ELEMENTS, CHUNK_LEAST, CHUNK_SHARE = 2**25, 2**20, 16
"""Expected outputs of an operator with independent rows are computed in slices, and all outputs are compared in slices. A slice
has a sixteenth of the elements of the largest tensor, but at least 2^20 and at most 2^25. So the float64 temporaries of a large
case are small beside its tensors. Smaller slices would cost a device launches."""

ROWS_AGREE = 1e-6
"""A reference may differ by this share of the scale between some rows and all of them: float64 sums in another order."""


def keep_bytes(free_bytes: int | None) -> int:
    """How many bytes of expected outputs a worker may keep for one set of inputs. `free_bytes` is None if not known."""
    return max(KEPT_BYTES, min(KEPT_MOST, int((free_bytes or 0) * KEPT_SHARE) // EXPECTED_SETS))


def slice_elements(largest: int, limit: int = CHUNK_ELEMENTS) -> int:
    """The most elements of a slice of a tensor with `largest` elements."""
    return min(limit, max(CHUNK_LEAST, -(-largest // CHUNK_SHARE)))


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
        """A slice of this part. `start` counts from the beginning of the part. A part that is a slice itself has slices along
        the same dimension only."""
        first = self.start + start
        scale = None if self.scale is None else self.scale.narrow(dimension, start, count)
        reference = self.reference.narrow(dimension, start, count)
        return OutputPart(self.position, dimension, first, first + count, reference, scale)

    @property
    def bytes(self) -> int:
        return self.reference.nbytes + (self.scale.nbytes if self.scale is not None else 0)


class Expected:
    """What a call must deliver for `inputs`, which must not change. Every method raises OperatorFault.

    Only large outputs are sliced, and only along the operator's `rows`. A gradient that has no such axis is the sum over the
    slices. Values of up to `keep_bytes` are computed once and kept for all providers of a case. Larger ones are computed again
    for every check. `scales` are scales of the whole outputs to take in place of an estimate.
    """

    def __init__(
        self,
        definition: Definition,
        inputs: Sequence[Tensor],
        keep_bytes: int = KEPT_BYTES,
        scales: Sequence[Tensor | None] | None = None,
    ) -> None:
        self.definition, self.inputs, self._keep_bytes, self._given = definition, inputs, keep_bytes, scales
        self._kept: list[OutputPart] | None = None
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        rows = definition.operator.rows
        self._cuts = [None if rows is None else each.dimension_of(rows) for each in definition.declared_inputs]
        self._seams = [None if rows is None else each.declared.dimension_of(rows) for each in definition.outputs]

    def of(self, inputs: Sequence[Tensor]) -> Expected:
        """The same for other inputs, with scales of these if they are kept."""
        return Expected(self.definition, inputs, self._keep_bytes, self.kept_scales())

    def compute(self) -> None:
        """Compute the shapes and the values now, and keep the values if they fit."""
        for _ in self.parts():
            pass
        assert self.shapes

    @property
    def kept_bytes(self) -> int:
        """The bytes of the values that are kept; 0 if they do not fit."""
        return sum(part.bytes for part in self._kept or ())

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes that the outputs must have."""
        if self._shapes is None:
            if self._sliced:
                row = self.definition.expected(exactly(self._slice(0, 1)), " (on one row alone, because of rows=)")
                self._shapes = tuple(
                    tuple(self._rows if d == seam else size for d, size in enumerate(each.shape))
                    for each, seam in zip(row, self._seams, strict=True)
                )
            else:
                self._in_one_piece()
        assert self._shapes is not None
        return self._shapes

    def check_rows(self) -> None:
        """Raises OperatorFault if the reference returns other values on half of the rows than on all of them."""
        rows = self._rows
        if rows < 2 or self._sliced:
            return
        half = -(-rows // 2)
        halves = [
            self.definition.expected(exactly(self._slice(start, stop)), " (on some rows, because of rows=)")
            for start, stop in ((0, half), (half, rows))
        ]
        for whole, first, second, seam in zip(self._in_one_piece(), *halves, self._seams, strict=True):
            if seam is None and whole.scale is None:
                continue
            joined = first + second if seam is None else _joined(first, second, seam)
            if joined is None or joined.shape != whole.reference.shape or not _agree(whole, joined):
                name = self.definition.outputs[whole.position].name
                what = f"the values that reference returned for {name} changed when it was given only half of the rows"
                raise self.definition.fault(
                    what, f"the rows are not independent; leave out rows={self.definition.operator.rows!r}"
                )

    def parts(self) -> Iterator[OutputPart]:
        """All outputs, each in one part or in slices. One part each, in order, if the operator has a judge of its own."""
        if self._kept is not None:
            yield from self._kept
            return
        if not self._sliced:
            yield from self._in_one_piece()
        elif self._sliced_bytes > self._keep_bytes:
            yield from self._slices()
        else:
            self._kept = self._joined_slices()
            yield from self._kept

    @property
    def _sliced_bytes(self) -> int:
        """The bytes of all values and scales, at most: elements have 8 bytes in both."""
        pairs = zip(self.shapes, self.definition.outputs, strict=True)
        return sum(prod(shape) * (16 if each.dtype.is_floating_point else 8) for shape, each in pairs)

    def _joined_slices(self) -> list[OutputPart]:
        """All outputs in one part each, in order. Slices that were kept one by one would leave gaps in memory."""
        found: dict[int, OutputPart] = {}
        for part in self._slices():
            if part.dimension is None:
                found[part.position] = part
                continue
            shape = self.shapes[part.position]
            if part.position not in found:
                scale = None if part.scale is None else part.scale.new_empty(shape)
                found[part.position] = OutputPart(part.position, None, 0, 0, part.reference.new_empty(shape), scale)
            whole = found[part.position]
            for target, source in ((whole.reference, part.reference), (whole.scale, part.scale)):
                if target is not None and source is not None:
                    target.narrow(part.dimension, part.start, part.stop - part.start).copy_(source)
        return [found[position] for position in sorted(found)]

    def pieces(self, part: OutputPart) -> Iterator[OutputPart]:
        """A part in slices, so that the temporaries of a comparison are small: along the rows if the output has rows."""
        count = part.reference.numel()
        most = -(-count // slice_elements(count))
        if most < 2:
            yield part
            return
        shape, seam = part.reference.shape, self._seams[part.position]
        along = seam if seam is not None else 0 if shape[0] >= most else shape.index(max(shape))
        step = -(-shape[along] // most)
        for start in range(0, shape[along], step):
            yield part.narrowed(along, start, min(step, shape[along] - start))

    def kept_scales(self) -> list[Tensor | None] | None:
        """The scales of the outputs, if they are kept."""
        return None if self._kept is None else [part.scale for part in self._kept]

    def second_scale(self, part: OutputPart, doubtful: Tensor) -> Tensor:
        """The scale of a part, estimated a second time where `doubtful`, a mask of few elements, holds. It is never smaller
        than the first estimate. Elements elsewhere may keep the first."""
        assert part.scale is not None
        seam = self._seams[part.position]
        if seam is None:
            return torch.maximum(part.scale, part.of(self._second_estimate(part.position, self._batches())))
        rows = doubtful.movedim(seam, 0).reshape(doubtful.shape[seam], -1).any(1).nonzero().flatten()
        some = [self._slice(row, row + 1) for row in (rows + part.start).tolist()]
        found = self._second_estimate(part.position, [_together(some, self._cuts)])
        scale = part.scale.clone()
        return scale.index_copy_(seam, rows, torch.maximum(scale.index_select(seam, rows), found))

    def _second_estimate(self, position: int, batches: Iterable[Sequence[Tensor]]) -> Tensor:
        """The scale of an output without |reference|, summed over some batches of rows."""
        wanted = [each == position for each in range(len(self._seams))]
        squares = []
        for batch in batches:
            exact = exactly(batch)
            references = self.definition.expected(exact, " (on some rows, because of rows=)")
            squares.append(mean_squares(self.definition, references, exact, wanted, SECOND_TRIALS)[position])
        total = sum(square for square in squares if square is not None)
        assert isinstance(total, Tensor)
        return total.sqrt()

    def _batches(self) -> Iterator[Sequence[Tensor]]:
        """The inputs, in slices if they are large."""
        if not self._sliced:
            yield self.inputs
            return
        for start, stop in self._bounds():
            yield self._slice(start, stop)

    def _bounds(self) -> list[tuple[int, int]]:
        rows = self._rows
        step = max(1, self._step_elements * rows // self._elements)
        return [(start, min(start + step, rows)) for start in range(0, rows, step)]

    def _in_one_piece(self) -> list[OutputPart]:
        if self._kept is not None:
            return self._kept
        exact = exactly(self.inputs)
        references = self.definition.expected(exact)
        self._shapes = tuple(tuple(reference.shape) for reference in references)
        scales = self._scales(references, exact)
        parts = [
            OutputPart(position, None, 0, 0, reference, scale)
            for position, (reference, scale) in enumerate(zip(references, scales, strict=True))
        ]
        if sum(part.bytes for part in parts) <= self._keep_bytes:
            self._kept = parts
        return parts

    @cached_property
    def _sliced(self) -> bool:
        """Whether the outputs are computed in slices. The operator's own judge gets them whole."""
        return self.definition.operator.check is None and self._rows > 1 and self._elements > self._step_elements

    @property
    def _elements(self) -> int:
        """The elements of the largest tensor that slices make smaller."""
        read = [x.numel() for x, cut in zip(self.inputs, self._cuts, strict=True) if cut is not None]
        made = [
            prod(size if d != seam else self._rows for d, size in enumerate(self.definition.declared_shape(each)))
            for each, seam in zip(self.definition.outputs, self._seams, strict=True)
            if seam is not None
        ]  # of the rows that the inputs have, which may be fewer than those of the case
        return max(*read, *made, 1, 1)

    @property
    def _step_elements(self) -> int:
        return slice_elements(self._elements, CHUNK_ELEMENTS)

    @property
    def _rows(self) -> int:
        return next((x.shape[cut] for x, cut in zip(self.inputs, self._cuts, strict=True) if cut is not None), 1)

    def _slices(self) -> Iterator[OutputPart]:
        sums: dict[int, tuple[Tensor, Tensor]] = {}
        for start, stop in self._bounds():
            exact = exactly(self._slice(start, stop))
            references = self.definition.expected(exact, " (on some rows, because of rows=)")
            squares = self._given_squares(start, stop) or self._squares(references, exact)
            for position, (reference, square, seam) in enumerate(zip(references, squares, self._seams, strict=True)):
                if seam is not None:
                    scale = self._scale(position, reference, square, exact)
                    yield OutputPart(position, seam, start, stop, reference, scale)
                elif square is not None:
                    if position not in sums:
                        sums[position] = reference.clone(), square  # a reference may return what it was given
                    else:
                        for total, added in zip(sums[position], (reference, square), strict=True):
                            total += added
        for position, (reference, square) in sums.items():
            yield OutputPart(position, None, 0, 0, reference, torch.maximum(square.sqrt(), reference.abs()))

    def _scales(self, references: Sequence[Tensor], exact: Sequence[Tensor]) -> list[Tensor | None]:
        squares = self._given_squares(0, self._rows) or self._squares(references, exact)
        return [self._scale(i, r, s, exact) for i, (r, s) in enumerate(zip(references, squares, strict=True))]

    def _given_squares(self, start: int, stop: int) -> list[Tensor | None] | None:
        """The squares of the given scales, for these rows; None if no scales are given. An output without rows is a sum over
        the slices: the first slice has its square, and the others have zeros."""
        if self._given is None:
            return None
        squares: list[Tensor | None] = []
        for scale, seam in zip(self._given, self._seams, strict=True):
            if scale is None:
                squares.append(None)
            elif seam is None:
                squares.append(scale.square() if start == 0 else torch.zeros_like(scale))
            else:
                squares.append(scale.narrow(seam, start, stop - start).square())
        return squares

    def _squares(self, references: Sequence[Tensor], exact: Sequence[Tensor]) -> list[Tensor | None]:
        """Mean squares of the changes of every output that has no scale of the operator's own and is judged by kbench."""
        wanted = [
            reference.is_floating_point() and not self._scaled(position) and not self._judged_elsewhere(position)
            for position, reference in enumerate(references)
        ]
        return mean_squares(self.definition, references, exact, wanted) if any(wanted) else [None] * len(references)

    def _scaled(self, position: int) -> bool:
        """Whether the operator declares the scale of this output."""
        return self.definition.operator.scale is not None and not self.definition.outputs[position].gradient

    def _judged_elsewhere(self, position: int) -> bool:
        """Whether the operator judges this output itself."""
        return self.definition.operator.check is not None and not self.definition.outputs[position].gradient

    def _scale(self, position: int, reference: Tensor, square: Tensor | None, exact: Sequence[Tensor]) -> Tensor | None:
        if not reference.is_floating_point() or self._judged_elsewhere(position):
            return None
        if self._scaled(position):
            return self.definition.scale(reference, exact)
        assert square is not None
        return torch.maximum(square.sqrt(), reference.abs())

    def _slice(self, start: int, stop: int) -> list[Tensor]:
        """Some rows of the inputs that have the axis `rows`; the other inputs whole."""
        return [
            x if cut is None else x.narrow(cut, start, stop - start)
            for x, cut in zip(self.inputs, self._cuts, strict=True)
        ]


def _agree(whole: OutputPart, joined: Tensor) -> bool:
    """Whether the values of some rows and of all of them are the same, but for the order of float64 sums."""
    same = joined == whole.reference
    if whole.scale is not None:
        same |= (joined - whole.reference).abs() <= ROWS_AGREE * whole.scale
        same |= joined.isnan() & whole.reference.isnan()
    return bool(same.all())


def _together(rows: Sequence[Sequence[Tensor]], cuts: Sequence[int | None]) -> list[Tensor]:
    """Inputs of single rows as one set: tensors with a dimension of rows are joined, others are the same in every row."""
    return [
        each[0] if cut is None else torch.cat(exactly(each), cut)
        for each, cut in zip(zip(*rows, strict=True), cuts, strict=True)
    ]


def _joined(first: Tensor, second: Tensor, dimension: int) -> Tensor | None:
    """Two parts of an output in one piece; None if their shapes do not fit."""
    if first.dim() != second.dim() or first.dim() <= dimension:
        return None
    pairs = enumerate(zip(first.shape, second.shape, strict=True))
    fit = all(a == b for d, (a, b) in pairs if d != dimension)
    return torch.cat([first, second], dimension) if fit else None
