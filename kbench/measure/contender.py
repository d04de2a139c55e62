"""A configuration, or a control, on its way through a case."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from kbench.analysis.pairwise import log_ratios, uncertainty
from kbench.contract.operator import Operator
from kbench.contract.provider import Provider
from kbench.measure.correctness.call import Call, Preparer
from kbench.measure.correctness.elements import Accuracy
from kbench.measure.launches.recorder import Recorded
from kbench.measure.machine.dynamo import CompiledParts
from kbench.measure.machine.telemetry import Quantities
from kbench.measure.salting import SpotCheck
from kbench.measure.tampering.guard import ProviderChanges, listed
from kbench.measure.tampering.torch_operators import TorchOperators
from kbench.measure.timing.timer import Sample
from kbench.protocol import Configuration
from kbench.results.case import Case, Value, configuration_name, format_params
from kbench.results.cells import is_plausible
from kbench.results.vocabulary import Control, Role, Status


@dataclass(frozen=True)
class Precision:
    """How far a time and its ratio to the baseline may be off, whichever is more, in log time, from the scatter of the rounds.

    scatter   three standard errors of the median of the rounds
    rounding  half a step of the clock; more rounds do not lower it
    """

    scatter: float
    rounding: float

    @property
    def share(self) -> float:
        """Half the width of the interval, as a share of the time."""
        return math.expm1(max(self.scatter, self.rounding))

    def enough(self, limit: float) -> bool:
        """Whether more rounds are not needed to know the time to the share `limit`, or cannot help."""
        return self.scatter <= max(math.log1p(limit), self.rounding)


@dataclass(eq=False)
class Contender:
    """What is known so far of one future row. A contender runs until it has a status.

    preparer     prepares a call on inputs
    calls        the prepared calls that the timer may rotate over; the first works on the case's inputs
    sample       takes the samples of one round; set once the timer is ready for this contender
    longest_ms   the longest that a round takes samples of it
    renew_calls  prepares its calls and its sampler where the inputs lie now; None for a control with calls of its own
    spot_check   salts the inputs of its timed calls, and keeps some of the outputs
    moved_bytes  bytes that one call moves, where the provider declares them
    rounds       samples in ms, one list per round
    gaps_ms      the time of a call between its kernels, one number per round; none if the timer does not see it
    spent_ms     wall time of the rounds so far
    readings     telemetry, taken before and after each round
    changes      what it has changed outside of its outputs; None before its first step
    operators    the operators of torch that its call runs
    compiled     how torch.compile runs its call
    recorded     what its call launches
    """

    index: int
    name: str
    params: Mapping[str, Value]
    role: Role = Role.PROVIDER
    provider: Provider | None = None
    preparer: Preparer | None = None
    calls: Sequence[Call] = ()
    sample: Sample | None = None
    longest_ms: float = math.inf
    renew_calls: Callable[[], None] | None = None
    spot_check: SpotCheck | None = None
    status: Status | None = None
    reason: str = ""
    accuracy: Accuracy = field(default_factory=Accuracy)
    build_ms: float | None = None
    launch_ms: float | None = None
    moved_bytes: int | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    rounds: list[list[float]] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)
    spent_ms: float = 0.0
    readings: list[Quantities] = field(default_factory=list)
    changes: ProviderChanges | None = None
    operators: TorchOperators = field(default_factory=TorchOperators)
    compiled: CompiledParts = field(default_factory=CompiledParts)
    recorded: Recorded = field(default_factory=Recorded)

    @classmethod
    def of(cls, index: int, configuration: Configuration, operator: Operator) -> Contender:
        """A configuration of the operator before it has run. Its provider may not exist."""
        name = configuration.provider
        return cls(index, name, configuration.params, provider=operator.providers.get(name))

    @property
    def running(self) -> bool:
        return self.status is None

    @property
    def control(self) -> bool:
        return self.role == Role.CONTROL

    @property
    def round_ms(self) -> tuple[float, ...]:
        """The median of each round."""
        return tuple(median(samples) for samples in self.rounds)

    def precision(self, baseline: Contender | None, resolution_ms: float) -> Precision | None:
        """How well its time is known and, unless it is the baseline, a copy or an empty call, its ratio to the baseline. None
        if there are fewer than two rounds, or if a time is implausible, such as 0. `resolution_ms` is a step of the clock."""
        round_ms, compared_ms = self.round_ms, tuple[float, ...]()
        if baseline and baseline is not self and self.name not in (Control.COPY, Control.EMPTY):
            compared_ms = baseline.round_ms[: len(round_ms)]
        if len(round_ms) < 2 or not all(map(is_plausible, (*round_ms, *compared_ms))):
            return None
        scatter = uncertainty(list(map(math.log, round_ms)))
        rounding = resolution_ms / 2 / median(round_ms)
        if compared_ms:
            scatter = max(scatter, uncertainty(log_ratios(list(compared_ms), round_ms)))
            rounding += resolution_ms / 2 / median(compared_ms)
        return Precision(scatter, rounding)

    @property
    def configuration_name(self) -> str:
        """The name of the configuration: `triton-row[num_warps=4]`."""
        return configuration_name(self.name, format_params(self.params))

    def admitted(self, case: Case, device_type: str) -> Provider | None:
        """The provider, if it exists, runs on this machine and supports the case; otherwise the contender ends.

        Call it in a step: it runs the provider's own code.
        """
        provider = self.provider
        if provider is None:
            self.end(Status.ERROR, f"no provider {self.name!r}")
        elif reason := provider.unavailable(device_type):
            self.end(Status.UNAVAILABLE, reason)
        elif reason := provider.declines(case):
            self.end(Status.UNSUPPORTED, reason)
        return provider if self.running else None

    def judged(self, accuracy: Accuracy, context: str = "") -> None:
        """Record a check. A wrong output ends the contender; `context` precedes the reason."""
        self.accuracy = self.accuracy.worst(accuracy)
        if accuracy.wrong:
            self.end(Status.WRONG, context + accuracy.wrong)

    def blame_for_tampering(self) -> None:
        """End as `tampered` if it has tampered with something, however it has ended before."""
        if self.changes and self.changes.tampering and self.status is not Status.TAMPERED:
            tampering = "; ".join(self.changes.tampering)
            self.end(
                Status.TAMPERED,
                f"{tampering}; before that, the row was {self.status}: {self.reason}" if self.reason else tampering,
            )

    @property
    def altered(self) -> str:
        """What to say of the settings that it has changed; empty if it has changed none."""
        settings = self.changes.altered if self.changes else ()
        return f"changed {listed(settings)}; the other providers ran with the old values" if settings else ""

    def runs_operators_of(self, baseline: Contender | None) -> bool:
        """Whether its call runs the same operators of torch as that of the baseline, which is another provider. One that
        torch.compile has given up has these operators in common with what it was compiled from."""
        if baseline is None or baseline.name == self.name or self.control or self.compiled.uncompiled:
            return False
        return self.operators.same_as(baseline.operators)

    def end(self, status: Status, reason: str = "") -> None:
        """Stop here. The row states the reason and has no time."""
        self.status, self.reason = status, reason
        self.rounds, self.stages = [], {}
        self.let_go()

    def let_go(self) -> None:
        """Drop its calls, and with them the tensors of the case. They refer to the case in a circle, so Python would free them
        only at its next collection of garbage, which may be many cases later."""
        self.preparer, self.sample, self.calls, self.renew_calls, self.spot_check = None, None, (), None, None

    @property
    def mutates(self) -> Collection[str]:
        """The inputs that its calls may change."""
        return self.calls[0].mutates if self.calls else ()
