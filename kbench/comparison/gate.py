"""The gate: which verdicts fail a comparison, and whether it passed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sized
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from kbench.comparison.verdict import Verdict
from kbench.errors import UsageError
from kbench.text.suggest import unknown

MAY_BE_UNCLEAR = {Verdict.SLOWER, Verdict.FASTER, Verdict.SAME}
"""The verdicts that an unclear row would have with better measurements. A gate for others decides without times."""


class Judged(Protocol):
    """What a gate has to know of a comparison: see model.Comparison."""

    @property
    def nothing_common(self) -> str: ...

    @property
    def counts(self) -> Mapping[Verdict, int]: ...

    @property
    def comparable(self) -> bool: ...

    @property
    def decided(self) -> bool: ...

    @property
    def refused(self) -> Sized: ...


class GateResult(NamedTuple):
    """`undecided`: nothing was comparable, no row is clear, or `strict` refused a row. `text` is one sentence; it is empty when
    the comparison passes and no gate was asked for."""

    outcome: Literal["passed", "failed", "undecided"]
    text: str

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


@dataclass(frozen=True)
class Gate:
    """The verdicts that fail a comparison, in the order given; without verdicts every comparison passes. With `strict`, rows
    that were measured in different ways on the two sides do not pass."""

    fail_on: tuple[Verdict, ...] = ()
    strict: bool = False

    @classmethod
    def of(cls, fail_on: Collection[str], strict: bool) -> Gate:
        """Raises UsageError for a word that is not a verdict."""
        words = [verdict.value for verdict in Verdict]
        if strange := sorted(set(fail_on) - set(words)):
            raise UsageError(f"--fail-on: {unknown('verdict', strange[0], words)}")
        return cls(tuple(Verdict(word) for word in dict.fromkeys(fail_on)), strict)

    def judge(self, comparison: Judged) -> GateResult:
        if comparison.nothing_common:
            return GateResult("undecided", comparison.nothing_common)
        if failed := [f"{count} {verdict}" for verdict, count in comparison.counts.items() if verdict in self.fail_on]:
            return GateResult("failed", f"gate failed: {', '.join(failed)} ({self._options})")
        if not comparison.comparable:
            reason = (
                "no row has values that were measured in the same way on both sides"
                if Verdict.INCOMPARABLE in comparison.counts
                else "no row has a value in every session on both sides; the table says why"
            )
            return GateResult("undecided", f"nothing was comparable: {reason}")
        if self.strict and (refused := len(comparison.refused)):
            rows = "row was" if refused == 1 else "rows were"
            return GateResult("undecided", f"{refused} {rows} not measured in the same way on both sides (--strict)")
        if not comparison.decided and (not self.fail_on or MAY_BE_UNCLEAR.intersection(self.fail_on)):
            return GateResult("undecided", f"nothing was decided: {self._describe_unclear(comparison)}")
        if not self._options:
            return GateResult("passed", "")
        if Verdict.UNCLEAR in comparison.counts:
            return GateResult("passed", f"gate passed: {self._describe_unclear(comparison)}")
        return GateResult("passed", f"gate passed ({self._options})")

    def _describe_unclear(self, comparison: Judged) -> str:
        """`no row is slower, but 2 of 6 are unclear (--fail-on slower,unclear fails on them)`"""
        unclear, total = comparison.counts[Verdict.UNCLEAR], sum(comparison.counts.values())
        verb = "is" if unclear == 1 else "are"
        if not self.fail_on:
            return f"{unclear} of {total} rows {verb} unclear"
        none = " or ".join(filter(None, [", ".join(self.fail_on[:-1]), self.fail_on[-1]]))
        more = ",".join([*self.fail_on, Verdict.UNCLEAR])
        return f"no row is {none}, but {unclear} of {total} {verb} unclear (--fail-on {more} fails on them)"

    @property
    def _options(self) -> str:
        options = [f"--fail-on {','.join(self.fail_on)}"] if self.fail_on else []
        return " ".join([*options, *(["--strict"] if self.strict else [])])


NO_GATE = Gate()
