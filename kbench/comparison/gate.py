"""What a comparison has to pass, and whether it did."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from kbench.comparison.verdict import WORDS
from kbench.errors import UsageError
from kbench.text.suggest import unknown

if TYPE_CHECKING:
    from kbench.comparison import Comparison


class Result(NamedTuple):
    """`undecided`: nothing was comparable, or `strict` refused a row. `text` is one sentence, empty where nobody asked."""

    outcome: Literal["passed", "failed", "undecided"]
    text: str

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


@dataclass(frozen=True)
class Gate:
    """The verdicts that fail a comparison, as they were named; without any it always passes. `strict`: a row that was measured
    in another way on one side does not pass either."""

    fail_on: tuple[str, ...] = ()
    strict: bool = False

    @classmethod
    def of(cls, fail_on: Collection[str], strict: bool) -> Gate:
        """Raises UsageError for a word that is no verdict."""
        if strange := sorted(set(fail_on) - set(WORDS)):
            raise UsageError(f"--fail-on: {unknown('verdict', strange[0], WORDS)}")
        return cls(tuple(dict.fromkeys(fail_on)), strict)

    def judge(self, comparison: Comparison) -> Result:
        if comparison.nothing_common:
            return Result("undecided", comparison.nothing_common)
        if failed := [f"{count} {word}" for word, count in comparison.counts.items() if word in self.fail_on]:
            return Result("failed", f"gate failed: {', '.join(failed)} ({self._options})")
        if not comparison.comparable:
            return Result("undecided", "nothing was comparable: no row is in both, measured in the same way")
        if self.strict and (refused := len(comparison.refused)):
            rows = "row was" if refused == 1 else "rows were"
            return Result("undecided", f"{refused} {rows} not measured in the same way on both sides (--strict)")
        return Result("passed", f"gate passed ({self._options})" if self._options else "")

    @property
    def _options(self) -> str:
        options = [f"--fail-on {','.join(self.fail_on)}"] if self.fail_on else []
        return " ".join([*options, *(["--strict"] if self.strict else [])])


NO_GATE = Gate()
