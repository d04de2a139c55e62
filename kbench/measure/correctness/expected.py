"""The output that an operator expects for one set of inputs: its shape, its exact values, and the scale of their errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from kbench.measure.correctness.definition import Definition, exactly
from kbench.measure.correctness.error_scale import estimated

CHUNK_ELEMENTS = 2**25
"""The output of a rowwise operator is compared in slices of this many elements. This limits float64 temporaries to a few GB."""

KEPT_ELEMENTS = 2**22
"""The expected values of an output of up to this many elements are computed once and kept for all providers of a case."""


@dataclass(frozen=True)
class OutputPart:
    """Rows `start` to `stop` of an output, or all of it. `reference` and `scale` are float64 and have the same shape. Errors
    are judged at `scale`, which is never below |reference|."""

    start: int
    stop: int
    reference: Tensor
    scale: Tensor

    def of(self, output: Tensor) -> Tensor:
        """The same part of an output."""
        return output[self.start : self.stop] if output.dim() else output


class Expected:
    """The expected output for `inputs`, which must not change. Every method raises OperatorFault.

    Only large outputs are sliced, and only if the operator is `rowwise`.
    """

    def __init__(self, definition: Definition, inputs: Sequence[Tensor]) -> None:
        self.definition, self.inputs = definition, inputs
        self._kept: list[OutputPart] | None = None

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape that the output must have."""
        if not self._sliced:
            return tuple(self._whole.reference.shape)
        row = self.definition.reference(exactly(self._rows(0, 1)), " (on the first row alone, because of rowwise=True)")
        return (self.inputs[0].shape[0], *row.shape[1:])

    def parts(self) -> Iterator[OutputPart]:
        """The whole output, in one part or in slices along its first dimension."""
        if not self._sliced:
            yield self._whole
            return
        rows = self.shape[0]
        elements = max(self.inputs[0].numel(), rows * _product(self.shape[1:]), 1)
        step = max(1, CHUNK_ELEMENTS * rows // elements)
        for start in range(0, rows, step):
            yield self._part(start, min(start + step, rows), " (on some rows, because of rowwise=True)")

    @property
    def _whole(self) -> OutputPart:
        if self._kept:
            return self._kept[0]
        part = self._part(None, None, "")
        if part.reference.numel() <= KEPT_ELEMENTS:
            self._kept = [part]
        return part

    @property
    def _sliced(self) -> bool:
        first = self.inputs[0]
        return self.definition.operator.rowwise and first.dim() > 0 and first.numel() > CHUNK_ELEMENTS

    def _part(self, start: int | None, stop: int | None, where: str) -> OutputPart:
        exact = exactly(self.inputs if start is None or stop is None else self._rows(start, stop))
        reference = self.definition.reference(exact, where)
        if self.definition.operator.scale is not None:
            scale = self.definition.scale(reference, exact)
        else:
            scale = estimated(self.definition, reference, exact)
        if start is None or stop is None:
            start, stop = 0, reference.shape[0] if reference.dim() else 1
        return OutputPart(start, stop, reference, scale)

    def _rows(self, start: int, stop: int) -> list[Tensor]:
        """Rows of the inputs that have as many dimensions and rows as the first one; the other inputs whole."""
        first = self.inputs[0]
        return [x[start:stop] if x.dim() == first.dim() and x.shape[0] == first.shape[0] else x for x in self.inputs]


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
