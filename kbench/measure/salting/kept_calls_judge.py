"""Judges what was kept of timed calls, when timing is over.

The inputs of a timed call are the checked values with the salts of that call, so they can be made again. If only rows of the
outputs were kept, kbench computes the reference of these rows only.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kbench.measure.correctness.check import compared
from kbench.measure.correctness.elements import compare_elements
from kbench.measure.correctness.expected import Expected
from kbench.measure.correctness.inputs import SharedInputs
from kbench.measure.salting.kept import Keeper, Kept, select_rows
from kbench.measure.salting.marks import Marks
from kbench.measure.salting.salts import Salt, Salter

FEW = 4
"""So many of the calls before a wrong one are looked at if each takes the whole reference."""

STALE_SHARE = 0.25
"""If so many of the wrong elements are right for other inputs, the output is stale."""


class KeptCallsJudge:
    """Judges the kept calls of one provider. It writes into the `shared` inputs, and restores them. `checked` is what a call
    must deliver without salts."""

    def __init__(self, checked: Expected, shared: SharedInputs, salter: Salter, keeper: Keeper) -> None:
        self._checked, self._definition = checked, checked.definition
        self._shared, self._salter, self._keeper = shared, salter, keeper

    def fault(self, calls: Sequence[Kept], seen: int) -> str | None:
        """What is wrong with one of `calls`, in words; None if all are right. The provider was timed `seen` times. It is the
        first wrong call whose output is known to be a result for other inputs, or else the first wrong call. Raises
        OperatorFault."""
        calls, first = [self._keeper.tidy(call) for call in calls], None
        try:
            for call in calls:
                stale = False
                if call.fault or self._keeper.whole:
                    said = call.fault or self._whole(call)
                else:
                    said, stale = self._parts(call, calls)
                if not said:
                    continue
                said = f"right when checked, wrong while it was timed (call {call.number} of {seen}): {said}"
                if stale:
                    return said
                first = first or said
        finally:
            self._shared.restore()
        return first

    def _whole(self, call: Kept) -> str | None:
        found = compared(Expected(self._definition, self._inputs(call.salts)), call.outputs)
        return None if found.near else found.wrong

    def _parts(self, call: Kept, calls: Sequence[Kept]) -> tuple[str | None, bool]:
        """What is wrong with a call, and whether its output is a result for other inputs."""
        scales = self._checked.kept_scales()  # almost those of this call, and an estimate takes much longer
        if scales and not any(marks.count for marks in self._marks(call, call.salts, scales)):
            return None, False
        now = self._marks(call, call.salts)
        if not any(marks.count for marks in now):
            return None, False
        earlier = call.earlier if self._keeper.in_rows else call.earlier[:FEW]
        others = [self._marks(call, salts) for salts in ((), call.salts[:-1], *earlier)]
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
            other_inputs = bool(stale.sum() >= STALE_SHARE * marks.count)
            return which + marks.explain(other_inputs, computed), other_inputs
        return None, False

    def _inputs(self, salts: Sequence[Salt]) -> Sequence[Tensor]:
        """The inputs of a call, made again."""
        self._shared.restore()
        for salt in salts:
            for box in salt.boxes:
                box.of(self._shared.stacked[box.position][0]).copy_(box.of(self._salter.other[box.position]))
        return self._shared.tensors

    def _marks(self, call: Kept, salts: Sequence[Salt], scales: Sequence[Tensor | None] | None = None) -> list[Marks]:
        """For each output, which of the elements that were kept are right for inputs with these salts. `scales` are those of
        whole outputs, in place of an estimate."""
        keeper, inputs, operator = self._keeper, self._inputs(salts), self._definition.operator
        made = [Marks(call, keeper, operator, output, at) for at, output in enumerate(self._definition.outputs)]
        if any(dimension is not None for dimension in keeper.dimensions):
            cuts = [x.dimension_of(operator.rows or "") for x in self._definition.declared_inputs]
            seams = [x.declared.dimension_of(operator.rows or "") for x in self._definition.outputs]
            some = [x if cut is None else select_rows(x, cut, call.rows) for x, cut in zip(inputs, cuts, strict=True)]
            narrow = scales and [
                x if x is None or seam is None else select_rows(x, seam, call.rows)
                for x, seam in zip(scales, seams, strict=True)
            ]
            for part in Expected(self._definition, some, scales=narrow).parts():
                if keeper.dimensions[part.position] is not None:
                    compare_elements(part, part.of(call.outputs[part.position]), made[part.position])
        if not keeper.in_rows:
            for part in Expected(self._definition, inputs, scales=scales).parts():
                if keeper.dimensions[part.position] is None:
                    chosen, elements = keeper.elements(part)
                    marks = made[part.position].among(chosen)
                    compare_elements(elements, call.outputs[part.position][chosen.to(elements.reference.device)], marks)
        return made

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
