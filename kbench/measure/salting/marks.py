"""Which elements of an output that was kept are right, and what the others look like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.measure.correctness.elements import WrongElements
from kbench.measure.correctness.expected import OutputPart
from kbench.measure.definition.definition import Output
from kbench.measure.salting.kept import Keeper, Kept

ROUNDED_SHARE = 0.01
"""If so few of the elements of an output of whole numbers are wrong, they may be rounded to the other side."""


class Marks(WrongElements):
    """Collects the wrong elements of what was kept of an output, and marks the right ones."""

    def __init__(self, call: Kept, keeper: Keeper, operator: Operator, output: Output, position: int) -> None:
        self._kept = call.outputs[position]
        super().__init__(self._kept, operator, output)
        self._dimension, self._rows, self._places = keeper.dimensions[position], call.rows, keeper.places[position]
        self._shape = keeper.shapes[position]
        self.right = torch.ones_like(self._kept, dtype=torch.bool)
        self._chosen: Tensor | None = None

    def among(self, chosen: Tensor) -> Marks:
        """Itself, for the next part: the elements at these positions among those that were kept."""
        self._chosen = chosen
        return self

    def add(self, right: Tensor, part: OutputPart, *rest: Any) -> None:
        self._mark(right, part)
        super().add(right, part, *rest)

    def add_exact(self, right: Tensor, part: OutputPart, *rest: Any) -> None:
        self._mark(right, part)
        super().add_exact(right, part, *rest)

    def _mark(self, right: Tensor, part: OutputPart) -> None:
        if self._chosen is None:
            part.of(self.right).copy_(right)
        else:
            self.right[self._chosen.to(right.device)] = right

    def _begin(self, part: OutputPart, at: tuple[int, ...], is_: str, should: str) -> None:
        """Name the place in the output, and not that among what was kept."""
        if self._dimension is not None:
            row = self._rows[at[self._dimension] + (part.start if part.dimension == self._dimension else 0)]
            at = (*at[: self._dimension], row, *at[self._dimension + 1 :])
        elif self._chosen is not None and self._places is not None:
            place = self._places[self._chosen[at[0]]]
            at = tuple(int(x) for x in torch.unravel_index(place, self._shape))
        super()._begin(replace(part, start=0), at, is_, should)

    @property
    def slight(self) -> bool:
        """Whether the errors are so small, or so few, that they are a matter of accuracy. The checks decide about that, because
        their inputs are the same in every run."""
        return self.near or (not self._kept.is_floating_point() and self.count <= ROUNDED_SHARE * self.total)

    def explain(self, stale: bool, computed: bool) -> str:
        """What is wrong, and what that suggests.

        `stale` means that many of the wrong elements are right for the inputs of the checks, of the call before or of another
        set, or the same as in another call. `computed` means that other elements are right for these inputs only.
        """
        where = f"{self._many()} hold "
        if self.nans:
            return f"{where}NaN: it probably leaves memory unwritten, or computes NaN"
        if self.zeros:
            return f"{where}zeros: it probably leaves work undone"
        if stale and computed:
            return f"{where}results for other inputs: it leaves a part of its work undone"
        if stale:
            return f"{where}results for other inputs: it returns stored results or skips its work"
        return self.describe()

    def _many(self) -> str:
        if self._dimension is None:
            return f"{self.count} of {self.total} elements that kbench looked at"
        wrong = (
            int((~self.right).movedim(self._dimension, 0).flatten(1).any(1).sum())
            if self.right.dim() > 1
            else self.count
        )
        return f"{wrong} of {len(self._rows)} rows that kbench looked at"
