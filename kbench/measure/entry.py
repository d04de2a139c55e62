"""A provider with its parameters, or a control, on its way through a case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbench.measure.correctness.check import Accuracy
from kbench.measure.machine.telemetry import Reading
from kbench.registry import Provider
from kbench.results.row import CONTROL, PROVIDER, Status, Value, curve_name, format_params


@dataclass
class Entry:
    """What is known so far of one future row. It runs until it has a status.

    fn           the function of the inputs
    buffers      the argument tuples that the timer may rotate over, the first one being the case's inputs
    sample       takes one round's samples, in ms; made once the timer is ready for this entry
    moved_bytes  of one call, where the provider says it
    rounds       samples in ms, a list per round
    readings     of the device, around the rounds
    """

    index: int
    name: str
    params: Mapping[str, Value]
    role: str = PROVIDER
    provider: Provider | None = None
    fn: Callable[..., Any] | None = None
    buffers: Sequence[tuple[Any, ...]] = ()
    sample: Callable[[], list[float]] | None = None
    status: Status | None = None
    reason: str = ""
    accuracy: Accuracy = field(default_factory=Accuracy)
    build_ms: float | None = None
    launch_ms: float | None = None
    moved_bytes: int | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    rounds: list[list[float]] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.status is None

    @property
    def control(self) -> bool:
        return self.role == CONTROL

    @property
    def curve(self) -> str:
        return curve_name(self.name, format_params(self.params))

    def end(self, status: Status, reason: str = "") -> None:
        """Stop here: the row says why, and carries no time."""
        self.status, self.reason = status, reason
        self.rounds, self.fn, self.sample, self.buffers, self.stages = [], None, None, (), {}

    def judged(self, found: Accuracy, context: str) -> None:
        """Take note of a check; a wrong output ends the entry, with `context` before what was wrong."""
        self.accuracy = self.accuracy.worst(found)
        if found.wrong:
            self.end(Status.WRONG, context + found.wrong)
