"""The controls: rows that kbench adds to every case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor

from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call
from kbench.measure.instruments import EmptyRounds
from kbench.measure.steps import Steps
from kbench.measure.tampering.guard import ProviderChanges
from kbench.measure.timing.timer import Timer
from kbench.results.case import Case
from kbench.results.vocabulary import Control, Role

COPY_MS = 8.0
"""A round takes samples of the copy for at most this long. Copies of one size differ little: the median of the thirty or more
samples of one such round is known to 0.5 %."""

REPEAT_MS = 16.0
"""The same for the repeat. With fewer samples than the baseline, it can only differ more from it, so the noise floor is never
too low."""

COPY_ALIGNMENT = 128
"""The copy control moves a multiple of this many elements: an odd length would deny it 16-byte accesses."""


class Drawn(Protocol):
    """Draws tensors of the case's dtype, as `Inputs` does."""

    def normal(self, *shape: int) -> Tensor: ...


@dataclass(frozen=True)
class Controls:
    """Makes the controls of a case, whose calls have `call_bytes` algorithmic bytes. `measure_empty` returns what the session
    has measured of the timer."""

    case: Case
    call_bytes: int
    inputs: Drawn
    timer: Timer
    steps: Steps
    build_timeout_s: float
    measure_empty: Callable[[], EmptyRounds]

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
        control = Contender(index, Control.COPY, {}, Role.CONTROL, longest_ms=COPY_MS)
        with self.steps.step(control, "build", self.build_timeout_s):
            sets = self.timer.sets(self.call_bytes)
            sources, targets = (self.inputs.normal(sets, elements) for _ in range(2))
            control.calls = [Call(partial(_copy, *pair)) for pair in zip(sources, targets, strict=True)]
        return control

    def empty(self, index: int) -> Contender:
        """Does nothing: the overhead of the timer, which a session measures once for all its cases. It takes no part in the
        rounds of the case."""
        control = Contender(index, Control.EMPTY, {}, Role.CONTROL)
        with self.steps.step(control, "time", self.build_timeout_s):
            measured = self.measure_empty()
            control.rounds, control.readings = list(measured.rounds), list(measured.readings)
        return control


def _copy(source: Tensor, target: Tensor) -> None:
    target.copy_(source)


def repeat(index: int, baseline: Contender) -> Contender:
    """The baseline once more: the noise floor. It has the launch overhead of the baseline, so that the timer prepares both
    alike, and its settings."""
    theirs = baseline.changes
    changes = ProviderChanges(own=dict(theirs.own)) if theirs else None
    return Contender(
        index,
        Control.REPEAT,
        {},
        Role.CONTROL,
        stage=baseline.stage,
        launch_ms=baseline.launch_ms,
        longest_ms=REPEAT_MS,
        changes=changes,
    )
