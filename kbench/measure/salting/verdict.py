"""Judges what was kept of timed calls, when timing is over.

The inputs of a timed call are the checked values with the salts of that call, so they can be made again. If only rows of the
outputs were kept, kbench computes the reference of these rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kbench.measure.correctness.check import compare, compared
from kbench.measure.correctness.definition import Output
from kbench.measure.correctness.expected import Expected, OutputPart
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.correctness.wrong_elements import WrongElements
from kbench.measure.salting.kept import Keeper, Kept, select_rows
from kbench.measure.salting.salts import Salt, Salter

STALE_SHARE = 0.25
"""If so many of the wrong elements are right for other inputs, the output is stale."""

ROUNDED_SHARE = 0.01
"""If so few of the elements of an output of whole numbers are wrong, they may be rounded to the other side."""


class Verdict:
    """Judges the kept calls of one provider. It writes into the `shared` inputs, and restores them. `checked` is what a call
    must deliver without salts."""

    def __init__(self, checked: Expected, shared: SharedInputs, salter: Salter, keeper: Keeper) -> None:
        self._checked, self._definition = checked, checked.definition
        self._shared, self._salter, self._keeper = shared, salter, keeper

    def fault(self, calls: Sequence[Kept], seen: int) -> str | None:
        """What is wrong with the first wrong one of `calls`, in words; None if all are right. The provider was timed `seen`
        times. Raises OperatorFault."""
        try:
            for call in calls:
                if said := call.fault or (self._whole(call) if self._keeper.whole else self._parts(call, calls)):
                    return f"right when checked, wrong while it was timed (call {call.number} of {seen}): {said}"
        finally:
            self._shared.restore()
        return None

    def _whole(self, call: Kept) -> str | None:
        found = compared(Expected(self._definition, self._inputs(call.salts)), call.outputs)
        return None if found.near else found.wrong

    def _parts(self, call: Kept, calls: Sequence[Kept]) -> str | None:
        scales = self._checked.kept_scales()  # almost those of this call, and an estimate takes much longer
        if scales and not any(marks.count for marks in self._marks(call, call.salts, scales)):
            return None
        now = self._marks(call, call.salts)
        if not any(marks.count for marks in now):
            return None
        others = [self._marks(call, salts) for salts in ((), call.earlier, call.salts[:-1])]
        for position, marks in enumerate(now):
            if not marks.count:
                continue
            wrong = ~marks.right
            elsewhere = torch.stack([each[position].right for each in others]).any(0)
            stale = wrong & elsewhere
            if marks.slight and stale.sum() < STALE_SHARE * wrong.numel():
                continue
            for other in calls:
                if other is not call:
                    stale |= wrong & self._repeated(position, call, other)
            computed = bool((marks.right & ~elsewhere).any())
            which = f"{marks.output.name}: " if len(now) > 1 or marks.output.gradient else ""
            return which + marks.explain(bool(stale.sum() >= STALE_SHARE * marks.count), computed)
        return None

    def _inputs(self, salts: Sequence[Salt]) -> Sequence[Tensor]:
        """The inputs of a call, made again."""
        self._shared.restore()
        for salt in salts:
            for box in salt.boxes:
                box.of(self._shared.stacked[box.position][0]).copy_(box.of(self._salter.other[box.position]))
        return self._shared.tensors

    def _marks(self, call: Kept, salts: Sequence[Salt], scales: Sequence[Tensor | None] | None = None) -> list[_Marks]:
        """For each output, which of the elements that were kept are right for inputs with these salts. `scales` are those of
        whole outputs, in place of an estimate."""
        keeper, inputs, operator = self._keeper, self._inputs(salts), self._definition.operator
        made = [
            _Marks(kept, operator, output, dimension, call.rows)
            for kept, output, dimension in zip(call.outputs, self._definition.outputs, keeper.dimensions, strict=True)
        ]
        if any(dimension is not None for dimension in keeper.dimensions):
            cuts = [x.dimension_of(operator.rows or "") for x in self._definition.declared_inputs]
            some = [x if cut is None else select_rows(x, cut, call.rows) for x, cut in zip(inputs, cuts, strict=True)]
            narrow = scales and [
                x if x is None or d is None else select_rows(x, d, call.rows)
                for x, d in zip(scales, keeper.dimensions, strict=True)
            ]
            for part in Expected(self._definition, some, scales=narrow).parts():
                if keeper.dimensions[part.position] is not None:
                    compare(part, part.of(call.outputs[part.position]), made[part.position])
        if not keeper.in_rows:
            for part in Expected(self._definition, inputs, scales=scales).parts():
                if keeper.dimensions[part.position] is None:
                    compare(self._part(part), call.outputs[part.position], made[part.position])
        return made

    def _part(self, part: OutputPart) -> OutputPart:
        """The elements that are kept, of the reference of a whole output."""
        keep = self._keeper.part
        scale = None if part.scale is None else keep(part.position, part.scale, ())
        return replace(part, reference=keep(part.position, part.reference, ()), scale=scale)

    def _repeated(self, position: int, call: Kept, other: Kept) -> Tensor:
        """Which elements of an output hold the same values as those of another call."""
        mine, found = call.outputs[position], torch.zeros_like(call.outputs[position], dtype=torch.bool)
        dimension = self._keeper.dimensions[position]
        if dimension is None:
            return mine.double() == other.outputs[position].double()
        theirs = {row: at for at, row in enumerate(other.rows)}
        for at, row in enumerate(call.rows):
            if row in theirs:
                same = (
                    mine.select(dimension, at).double()
                    == other.outputs[position].select(dimension, theirs[row]).double()
                )
                found.select(dimension, at).copy_(same)
        return found


class _Marks(WrongElements):
    """Also marks which elements are right, and knows which rows of an output they are in."""

    def __init__(self, kept: Tensor, operator: Any, output: Output, dimension: int | None, rows: Sequence[int]) -> None:
        super().__init__(kept, operator, output)
        self._masks: list[Tensor] = []
        self._kept, self._dimension, self._rows = kept, dimension, rows

    @property
    def right(self) -> Tensor:
        if len(self._masks) == 1:
            return self._masks[0]
        return torch.cat(self._masks, self._dimension or 0)

    @property
    def slight(self) -> bool:
        """Whether the errors are so small, or so few, that they are a matter of accuracy. The checks decide about that, because
        their inputs are the same in every run."""
        return self.near or (not self._kept.is_floating_point() and self.count <= ROUNDED_SHARE * self.total)

    def add(self, right: Tensor, *rest: Any) -> None:
        self._masks.append(right)
        super().add(right, *rest)

    def add_exact(self, right: Tensor, *rest: Any) -> None:
        self._masks.append(right)
        super().add_exact(right, *rest)

    def _begin(self, part: OutputPart, at: tuple[int, ...], is_: str, should: str) -> None:
        """Name the row of the output, and not its place among the rows that were kept."""
        if self._dimension is not None:
            row = self._rows[at[self._dimension] + (part.start if part.dimension == self._dimension else 0)]
            at = (*at[: self._dimension], row, *at[self._dimension + 1 :])
        super()._begin(replace(part, start=0), at, is_, should)

    def explain(self, stale: bool, computed: bool) -> str:
        """What is wrong, and what that suggests.

        `stale` means that many of the wrong elements are right for the inputs of the checks, of the call before or of another
        set, or the same as in another call. `computed` means that other elements are right for these inputs only.
        """
        where = f"{self._many()} hold "
        if self.nans:
            return f"{where}NaN: it leaves memory unwritten"
        if self.zeros:
            return f"{where}zeros: it leaves work undone"
        if stale and computed:
            return f"{where}results for other inputs: it leaves a part of its work undone"
        if stale:
            return f"{where}results for other inputs: it returns stored results or skips its work"
        return self.describe()

    def _many(self) -> str:
        if self._dimension is None:
            return f"{self.count} of {self.total} elements"
        wrong = (
            int((~self.right).movedim(self._dimension, 0).flatten(1).any(1).sum())
            if self.right.dim() > 1
            else self.count
        )
        return f"{wrong} of {len(self._rows)} rows that were looked at"
