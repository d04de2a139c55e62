"""The controls: rows that kbench adds to every case."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from kbench.measure.contender import Contender
from kbench.measure.correctness.call import Call
from kbench.measure.instruments import EmptyRounds, normal_matrix
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


def copy(index: int, case: Case, call_bytes: int, *, timer: Timer, steps: Steps, limit_s: float) -> Contender:
    """Moves as many bytes as the operator must: the ceiling of the case."""
    sets, dtype = timer.sets(call_bytes), getattr(torch, case.dtype)
    elements = -(-call_bytes // (2 * case.itemsize * COPY_ALIGNMENT)) * COPY_ALIGNMENT
    control = Contender(index, Control.COPY, {}, Role.CONTROL, longest_ms=COPY_MS)
    with steps.step(control, "build", limit_s):
        sources, targets = (normal_matrix(steps.device, dtype, sets, elements) for _ in range(2))
        control.calls = [Call(partial(_copy, *pair)) for pair in zip(sources, targets, strict=True)]
    return control


def empty(index: int, *, steps: Steps, measure: Callable[[], EmptyRounds], limit_s: float) -> Contender:
    """Does nothing: the overhead of the timer, which a session measures once for all its cases. It takes no part in the rounds
    of the case."""
    control = Contender(index, Control.EMPTY, {}, Role.CONTROL)
    with steps.step(control, "time", limit_s):
        rounds, readings = measure()
        control.rounds, control.readings = list(rounds), list(readings)
    return control


def _copy(source: Tensor, target: Tensor) -> None:
    target.copy_(source)


def repeat(index: int, baseline: Contender) -> Contender:
    """The baseline once more: the noise floor. It has the launch overhead of the baseline, so that the timer prepares both
    alike, and its settings."""
    baseline_changes = baseline.changes
    changes = ProviderChanges(own=dict(baseline_changes.own)) if baseline_changes else None
    return Contender(
        index,
        Control.REPEAT,
        {},
        Role.CONTROL,
        preparer=baseline.preparer,
        launch_ms=baseline.launch_ms,
        longest_ms=REPEAT_MS,
        changes=changes,
    )
