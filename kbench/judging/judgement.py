"""What kbench has found out about one provider: `kbench judge` prints it, and writes it as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kbench.analysis import Outcome
from kbench.judging.uncompared import Uncompared
from kbench.results.row import Row
from kbench.results.vocabulary import Flag, Status


@dataclass(frozen=True)
class CheckedInput:
    """The result of a provider on one edge input of one case, or on the case's random input.

    random  whether the case has a random shape, and not one of the shape set
    """

    case: str
    edge: str
    random: bool
    status: Status
    reason: str
    deterministic: bool | None


TIMING = "timing"
"""Stands for an edge input where a provider failed when it was measured."""


DISTRUSTED = (Flag.SUSPECT, Flag.SAME_OPS)
"""The flags of a provider that cannot be trusted: it is faster than it can be, or no kernel of its own."""


@dataclass(frozen=True)
class FailedCase:
    """What went wrong in one case: on which inputs, and the reason on the first of them."""

    status: Status
    case: str
    inputs: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class DoubtedCase:
    """A flag of DISTRUSTED in one case, and the reason that the row gives for it."""

    flag: Flag
    case: str
    reason: str


@dataclass(frozen=True)
class CaseSpeed:
    """How many times as fast as the baseline the provider is in one case. 2.0: it takes half of the time."""

    case: str
    speedup: float
    interval: tuple[float, float]
    outcome: Outcome


@dataclass(frozen=True)
class Against:
    """A provider against one baseline. `cases` are those in which both were timed."""

    baseline: str
    cases: tuple[CaseSpeed, ...]
    geomean: float
    interval: tuple[float, float]

    def count(self, outcome: Outcome) -> int:
        """The number of cases with this outcome."""
        return sum(case.outcome is outcome for case in self.cases)

    @property
    def worst(self) -> CaseSpeed:
        return min(self.cases, key=lambda case: case.speedup)

    @property
    def best(self) -> CaseSpeed:
        return max(self.cases, key=lambda case: case.speedup)


@dataclass(frozen=True)
class ProviderJudgement:
    """What was found out about one provider.

    checks      its results on edge inputs and random shapes
    rows        its rows of the timed shape set; none if a check failed
    against     the comparison with each baseline, the fastest baseline first
    uncompared  what these comparisons lack
    """

    provider: str
    checks: Sequence[CheckedInput]
    rows: Sequence[Row] = ()
    against: Sequence[Against] = field(default_factory=tuple)
    uncompared: Sequence[Uncompared] = ()

    @cached_property
    def failures(self) -> list[FailedCase]:
        """What went wrong, one entry for each status and case."""
        found: dict[tuple[str, Status], list[tuple[str, str]]] = {}
        for each in self.checks:
            if each.status.failed:
                found.setdefault((each.case, each.status), []).append((each.edge, each.reason))
        for row in self.rows:
            if row.status.failed:
                found.setdefault((row.case.label, row.status), []).append((TIMING, row.reason))
        return [
            FailedCase(status, case, tuple(dict.fromkeys(where for where, _ in places)), places[0][1])
            for (case, status), places in found.items()
        ]

    @property
    def right(self) -> bool:
        """Whether it was checked at least once, and nothing failed."""
        return self.tried and not self.failures

    @property
    def tried(self) -> bool:
        """Whether at least one of its results was compared with the reference."""
        return not all(status.declined for status in self.statuses)

    @property
    def statuses(self) -> list[Status]:
        """Those of all checks, then those of the rows."""
        return [*(each.status for each in self.checks), *(row.status for row in self.rows)]

    @property
    def declined(self) -> Counter[tuple[Status, str]]:
        """The number of cases in which it declined, for each status and reason: the timed cases, or else the checked ones. In a
        checked case it may have declined some inputs only."""
        timed = {(row.status, row.reason, row.case.label) for row in self.rows if row.status.declined}
        checked = {(each.status, each.reason, each.case) for each in self.checks if each.status.declined}
        return Counter((status, reason) for status, reason, _ in sorted(timed or checked))

    @property
    def accepted(self) -> list[CheckedInput]:
        """Its results on the inputs that it did not decline."""
        return [each for each in self.checks if not each.status.declined]

    @property
    def flags(self) -> Counter[Flag]:
        """The flags of its rows, with the number of rows that have them."""
        return Counter(Flag(flag) for row in self.rows for flag in row.flags)

    @property
    def doubts(self) -> list[DoubtedCase]:
        """The rows whose time or kernel cannot be trusted, one entry for each row and flag."""
        return [
            DoubtedCase(Flag(flag), row.case.label, row.reason)
            for row in self.rows
            for flag in row.flags
            if flag in DISTRUSTED
        ]

    @property
    def distrusted(self) -> Counter[Status | Flag]:
        """The statuses and flags that say that the provider cannot be trusted, with the number of results that have them."""
        found: Counter[Status | Flag] = Counter()
        found.update(status for status in self.statuses if status is Status.TAMPERED)
        found.update(doubt.flag for doubt in self.doubts)
        return found

    @property
    def deterministic(self) -> bool | None:
        """Whether two calls on the same input always gave the same bits. None if no input was tried twice."""
        found = [*(each.deterministic for each in self.checks), *(row.deterministic for row in self.rows)]
        known = [same for same in found if same is not None]
        return all(known) if known else None

    @property
    def timed(self) -> int:
        """The number of cases of the shape set in which it has a time."""
        return len({row.case for row in self.rows if row.ms is not None})

    @property
    def speed_known(self) -> bool:
        """Whether every speed-up is known that `--min-speedup` asks for: see `uncompared.py`."""
        return bool(self.against) and not any(each.required for each in self.uncompared)

    @property
    def slowest(self) -> Against | None:
        """The comparison with the baseline over which it gains least."""
        return min(self.against, key=lambda each: each.geomean, default=None)


def mean_speed(baseline: str, cases: Sequence[CaseSpeed]) -> Against:
    """The geometric mean over some cases, at least one. All cases are from the same sessions, and what differs between sessions
    may shift all of them alike. So the interval of the mean is as wide as theirs on average: more cases do not narrow it."""
    logs = [math.log(case.speedup) for case in cases]
    halves = [math.log(case.interval[1] / case.speedup) for case in cases]
    mean, half = math.fsum(logs) / len(logs), math.fsum(halves) / len(halves)
    return Against(baseline, tuple(cases), math.exp(mean), (math.exp(mean - half), math.exp(mean + half)))


def many(count: int, noun: str) -> str:
    """`1 case`, `2 cases`"""
    return f"{count} {noun}{'s' * (count != 1)}"
