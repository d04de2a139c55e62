"""The outcome of a comparison: its judged rows, its geometric mean, what a reader needs to weigh them, and its gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from kbench.comparison.drift import Drift
from kbench.comparison.environment_differences import EnvironmentDifference
from kbench.comparison.join import Key, Side
from kbench.comparison.options import CompareOptions
from kbench.comparison.reason import Cause, Reason, sentence_of
from kbench.comparison.verdict import Verdict

MAY_BE_UNCLEAR = {Verdict.SLOWER, Verdict.FASTER, Verdict.SAME}
"""The verdicts that an unclear row would have with better measurements. A gate for others decides without times."""


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
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    old: Side | None = None
    new: Side | None = None
    ratio: float | None = None
    ci: tuple[float, float] | None = None
    q: float | None = None

    @property
    def reason(self) -> str:
        """The reasons for readers; empty if there is nothing to say."""
        return sentence_of(self.reasons)

    def because(self, *causes: Cause) -> bool:
        """Whether one of these causes led to the verdict."""
        return any(reason.cause in causes for reason in self.reasons)


@dataclass(frozen=True)
class Geomean:
    """The geometric mean of the ratios.

    rows   how many rows have a ratio, of `total`
    ratio  None where no row has one
    ci     its 95 % interval; None unless all these rows have several sessions
    weighted  whether rows count by how often their case occurs
    """

    ratio: float | None
    ci: tuple[float, float] | None
    rows: int
    total: int
    weighted: bool = False


class GateResult(NamedTuple):
    """`undecided`: nothing was comparable, no row is clear, or `strict` refused a row. `text` is one sentence; it is empty when
    the comparison passes and no gate was asked for."""

    outcome: Literal["passed", "failed", "undecided"]
    text: str

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


@dataclass(frozen=True, repr=False)
class Comparison:
    """The verdicts on a new side against an old one.

    old, new              labels of the sides
    rows                  one row per key, sorted by key
    drifts                how the machine changed, by device; the device is "" if the files have one
    differences           what else differs between the files
    notes                 what was assumed or left out
    nothing_common        one sentence, set when the sides have no row in common
    places                where each provider of the new side is defined: `kernels/mine.py:12`, from the folder of the run
    """

    old: str
    new: str
    options: CompareOptions
    rows: tuple[JudgedRow, ...]
    geomean: Geomean
    drifts: Mapping[str, Drift]
    differences: tuple[EnvironmentDifference, ...] = ()
    notes: tuple[str, ...] = ()
    nothing_common: str = ""
    places: Mapping[str, str] = field(default_factory=dict)

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
    def passed(self) -> bool:
        """Whether the gate passed: a row with values on both sides is clear, and no row has a verdict in `fail_on`."""
        return self.gate.passed

    @cached_property
    def gate(self) -> GateResult:
        """What the comparison says of the verdicts that the options want to fail on."""
        counts, failing = self.counts, self.options.failing
        if self.nothing_common:
            return GateResult("undecided", self.nothing_common)
        if failed := [f"{count} {verdict}" for verdict, count in counts.items() if verdict in failing]:
            return GateResult("failed", f"gate failed: {', '.join(failed)} ({self._gate_options})")
        if not self.comparable:
            reason = (
                "no row has values that were measured in the same way on both sides"
                if Verdict.INCOMPARABLE in counts
                else "no row has a value in every session on both sides; the table says why"
            )
            return GateResult("undecided", f"nothing was comparable: {reason}")
        if self.options.strict and (refused := self._measured_differently):
            rows = "row was" if refused == 1 else "rows were"
            return GateResult("undecided", f"{refused} {rows} not measured in the same way on both sides (--strict)")
        decided = any(row.verdict is not Verdict.UNCLEAR for row in self._compared)
        if not decided and (not failing or MAY_BE_UNCLEAR.intersection(failing)):
            return GateResult("undecided", f"nothing was decided: {self._describe_unclear()}")
        if not self._gate_options:
            return GateResult("passed", "")
        if Verdict.UNCLEAR in counts:
            return GateResult("passed", f"gate passed: {self._describe_unclear()}")
        return GateResult("passed", f"gate passed ({self._gate_options})")

    @property
    def _compared(self) -> list[JudgedRow]:
        apart = (Verdict.INCOMPARABLE, Verdict.UNTIMED)
        return [row for row in self.rows if row.old and row.new and row.verdict not in apart]

    @property
    def _measured_differently(self) -> int:
        """The number of rows that have a time on both sides and were measured in different ways."""
        return sum(
            bool(row.old.readings and row.new.readings and row.old.differing_conditions(row.new, self.options.vary))
            for row in self.rows
            if row.verdict is Verdict.INCOMPARABLE and row.old and row.new
        )

    def _describe_unclear(self) -> str:
        """`no row is slower, but 2 of 6 are unclear (--fail-on slower,unclear fails on them)`"""
        unclear, total, failing = self.counts[Verdict.UNCLEAR], len(self.rows), self.options.failing
        verb = "is" if unclear == 1 else "are"
        if not failing:
            return f"{unclear} of {total} rows {verb} unclear"
        none = " or ".join(filter(None, [", ".join(failing[:-1]), failing[-1]]))
        more = ",".join([*failing, Verdict.UNCLEAR])
        return f"no row is {none}, but {unclear} of {total} {verb} unclear (--fail-on {more} fails on them)"

    @property
    def _gate_options(self) -> str:
        options = [f"--fail-on {','.join(self.options.failing)}"] if self.options.fail_on else []
        return " ".join([*options, *(["--strict"] if self.options.strict else [])])
