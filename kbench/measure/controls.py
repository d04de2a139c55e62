"""The controls: rows that kbench adds to every case."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call
from kbench.measure.correctness.inputs import Inputs
from kbench.measure.steps import Steps
from kbench.measure.timing.timer import Timer
from kbench.results.case import Case
from kbench.results.vocabulary import Control, Role

COPY_ALIGNMENT = 128
"""The copy control moves a multiple of this many elements: an odd length would deny it 16-byte accesses."""


class Controls:
    """Makes the controls of a case, whose calls have `call_bytes` algorithmic bytes."""

    def __init__(
        self, case: Case, call_bytes: int, *, inputs: Inputs, timer: Timer, steps: Steps, build_timeout_s: float
    ) -> None:
        self.case, self.call_bytes, self.inputs, self.timer = case, call_bytes, inputs, timer
        self.steps, self.build_timeout_s = steps, build_timeout_s

    def beside(self, contenders: Sequence[Contender], baseline: int | None) -> list[Contender]:
        """`copy` and `empty`, and `repeat` if the baseline runs. Their indices follow those of `contenders`."""
        count = len(contenders)
        added = [self.copy(count), self.empty(count + 1)]
        if baseline is not None and contenders[baseline].stage:
            added.append(repeat(count + 2, contenders[baseline]))
        return added

    def copy(self, index: int) -> Contender:
        """Moves as many bytes as the operator must: the ceiling of the case."""
        elements = -(-self.call_bytes // (2 * self.case.itemsize * COPY_ALIGNMENT)) * COPY_ALIGNMENT
        control = Contender(index, Control.COPY, {}, Role.CONTROL)
        with self.steps.step(control, "build", self.build_timeout_s):
            sets = range(self.timer.sets(self.call_bytes))
            pairs = [(self.inputs.normal(elements), self.inputs.normal(elements)) for _ in sets]
            control.calls = [Call(partial(_copy, source, target)) for source, target in pairs]
        return control

    def empty(self, index: int) -> Contender:
        """Does nothing: the overhead of the timer."""
        control = Contender(index, Control.EMPTY, {}, Role.CONTROL, calls=[Call(self.steps.device.empty_call)])
        with self.steps.step(control, "build", self.build_timeout_s):
            control.sample = self.timer.empty()
        return control


def _copy(source: Tensor, target: Tensor) -> None:
    target.copy_(source)


def repeat(index: int, baseline: Contender) -> Contender:
    """The baseline once more: the noise floor. It has the launch overhead of the baseline, so that the timer prepares both
    alike."""
    return Contender(index, Control.REPEAT, {}, Role.CONTROL, stage=baseline.stage, launch_ms=baseline.launch_ms)
