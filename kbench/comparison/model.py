"""The outcome of a comparison: its judged rows, its geometric means, and what a reader needs to weigh them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kbench.comparison.drift import Drift
from kbench.comparison.environment_differences import EnvironmentDifference
from kbench.comparison.gate import NO_GATE, Gate
from kbench.comparison.join import Key, Side
from kbench.comparison.options import Rules
from kbench.comparison.verdict import Verdict


@dataclass(frozen=True)
class JudgedRow:
    """One row of a comparison: what was measured, on both sides, and the verdict.

    ratio  the new value over the old one (ms: 2.0 takes twice as long; gbps: 2.0 is twice as fast). The machine's drift is
           removed from it where it is known, but not from the values of the sides.
    ci     the 95 % interval of the ratio
    q      the false discovery rate of a list of changed rows that ends with this one

    `ratio`, `ci` and `q` are None where they cannot be stated.
    """

    key: Key
    contender: str
    verdict: Verdict
    reason: str = ""
    old: Side | None = None
    new: Side | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    q: float | None = None


@dataclass(frozen=True)
class Geomean:
    """The geometric mean of a contender's ratios.

    rows   how many rows have a ratio, of `total`
    ratio  None where no row has one
    ci     its 95 % interval; None unless all these rows have several sessions
    weighted  whether rows count by how often their case occurs
    """

    contender: str
    ratio: float | None
    ci: tuple[float, float] | None
    rows: int
    total: int
    weighted: bool = False


@dataclass(frozen=True, repr=False)
class Comparison:
    """The verdicts on one or more contenders against a baseline.

    baseline, contenders  labels of the sides
    rows                  one row per key and contender, sorted by key
    geomeans              one per contender
    drifts                how the machine changed between the baseline and each contender
    differences           what else differs between the files
    notes                 what was assumed or left out
    gate                  what the comparison has to pass; by default everything passes
    nothing_common        one sentence, set when no contender has a row in common with the baseline
    places                where each provider is defined, by contender: `kernels/mine.py:12`, relative to the folder of the run
    """

    baseline: str
    contenders: tuple[str, ...]
    rules: Rules
    rows: tuple[JudgedRow, ...]
    geomeans: tuple[Geomean, ...]
    drifts: dict[str, Drift]
    differences: tuple[EnvironmentDifference, ...] = ()
    notes: tuple[str, ...] = ()
    gate: Gate = NO_GATE
    nothing_common: str = ""
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many rows have each verdict, in the order of verdicts, without verdicts that no row has."""
        counts = Counter(row.verdict for row in self.rows)
        return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}

    @property
    def comparable(self) -> bool:
        """Whether any row has values on both sides that were measured in the same way."""
        return bool(self._compared)

    @property
    def decided(self) -> bool:
        """Whether any of these rows has a clear verdict."""
        return any(row.verdict is not Verdict.UNCLEAR for row in self._compared)

    @property
    def _compared(self) -> list[JudgedRow]:
        apart = (Verdict.INCOMPARABLE, Verdict.UNTIMED)
        return [row for row in self.rows if row.old and row.new and row.verdict not in apart]

    @property
    def passed(self) -> bool:
        """Whether the gate passed: a row with values on both sides is clear, and no row has a verdict in `fail_on`."""
        return self.gate.judge(self).passed

    @property
    def refused(self) -> list[JudgedRow]:
        """The rows that have a time on both sides and were measured in different ways."""
        return [
            row
            for row in self.rows
            if row.verdict is Verdict.INCOMPARABLE and row.old and row.new and row.old.readings and row.new.readings
            if row.old.differing_conditions(row.new, self.rules.vary)
        ]
