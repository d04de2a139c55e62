"""The outcome of a comparison: its judged rows, its geometric mean, what a reader needs to weigh them, and its gate.

These types are also its JSON, the format that programs should read. `schema` describes it, as docs/compare.schema.json does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, computed_field

from kbench.comparison.drift import Drift
from kbench.comparison.environment_differences import EnvironmentDifference
from kbench.comparison.join import Pair, exported
from kbench.comparison.options import CompareOptions
from kbench.comparison.reason import Cause, Reason, sentence_of
from kbench.comparison.verdict import Verdict
from kbench.launches.code_change import CodeChange, code_change

MAY_BE_UNCLEAR = {Verdict.SLOWER, Verdict.FASTER, Verdict.SAME}
"""The verdicts that an unclear row would have with better measurements. A gate for others decides without times."""


@exported
@dataclass(frozen=True)
class JudgedRow(Pair):
    """The verdict on one configuration in one case."""

    verdict: Verdict
    reasons: Annotated[tuple[Reason, ...], Field(exclude=True)] = ()
    """Why the row has its verdict."""
    ratio: float | None = None
    """The new value divided by the old value (ms: 2.0 takes twice as long; gbps: 2.0 is twice as fast), without the machine's
    drift if the drift is known."""
    ci: tuple[float, float] | None = None
    """The 95 % interval of the ratio."""
    q: float | None = None
    """The lowest false discovery rate at which the row still counts as changed (Benjamini and Hochberg)."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def reason(self) -> str:
        """The reasons for the verdict, and how to get a clear one. May be empty."""
        return sentence_of(self.reasons)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def code(self) -> CodeChange | None:
        """Whether both sides ran the same machine code. same-names: kbench knows the kernels only by their names and the
        versions of packages. mixed: it differs between the sessions of a side. Null if it is not known."""
        return code_change(self.old.ran, self.new.ran) if self.old and self.new else None

    def because(self, *causes: Cause) -> bool:
        """Whether one of these causes led to the verdict."""
        return any(reason.cause in causes for reason in self.reasons)


@exported
@dataclass(frozen=True)
class Geomean:
    """The geometric mean of the ratios."""

    ratio: float | None
    """Null if no row has a ratio."""
    ci: tuple[float, float] | None
    """Its 95 % interval. Null unless all rows that have a ratio have several sessions."""
    rows: int
    """The number of rows that have a ratio."""
    total: int
    """The number of rows that one of the sides has."""
    weighted: bool = False
    """Whether rows count by how often their case occurs (column weight)."""


@exported
@dataclass(frozen=True)
class Gate:
    """What the comparison says of the verdicts of --fail-on. Without them it passes if at least one row is clear."""

    outcome: Literal["passed", "failed", "undecided"]
    """undecided: nothing was comparable, no row is clear, or --strict refused a row."""
    text: str
    """The outcome in one sentence, as the report begins with it. Empty if the comparison passed without a gate."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def passed(self) -> bool:
        """Whether the outcome is passed."""
        return self.outcome == "passed"


@exported
@dataclass(frozen=True, repr=False)
class Comparison:
    """The verdicts on a new side against an old one: what `kbench compare --export json=FILE` writes."""

    schema: Literal["kbench.compare/1"] = field(default="kbench.compare/1", init=False)
    """The version of this format. It changes if programs that read it have to change."""
    old: str
    """The label of the old side."""
    new: str
    """The label of the new side."""
    options: CompareOptions
    """The settings of the comparison. The verdicts depend on them."""
    rows: tuple[JudgedRow, ...]
    """A row for each configuration and case of a side."""
    geomean: Geomean
    drifts: Mapping[str, Drift]
    """How the machine changed, by device. The device is "" if the files have one."""
    differences: tuple[EnvironmentDifference, ...] = ()
    """What else differs between the files."""
    notes: tuple[str, ...] = ()
    """Assumptions, and what the comparison left out."""
    nothing_common: str = ""
    """One sentence, set when the sides have no row in common."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where each provider of the new side is defined, from the folder of the run: `kernels/mine.py:12`."""

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many rows have each verdict, in the order of verdicts, without verdicts that no row has."""
        return {verdict: count for verdict, count in self.summary.items() if count}

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def summary(self) -> dict[Verdict, int]:
        """The number of rows with each verdict. Every verdict is listed."""
        counts = Counter(row.verdict for row in self.rows)
        return {verdict: counts[verdict] for verdict in Verdict}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def comparable(self) -> bool:
        """Whether any row has values on both sides that were measured in the same way."""
        return bool(self._compared)

    @property
    def passed(self) -> bool:
        """Whether the gate passed: a row with values on both sides is clear, and no row has a verdict in `fail_on`."""
        return self.gate.passed

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def gate(self) -> Gate:
        """What the comparison says of the verdicts that the options want to fail on."""
        counts, failing = self.counts, self.options.failing
        if self.nothing_common:
            return Gate("undecided", self.nothing_common)
        if failed := [f"{count} {verdict}" for verdict, count in counts.items() if verdict in failing]:
            return Gate("failed", f"gate failed: {', '.join(failed)} ({self.options.gate_text})")
        if not self.comparable:
            reason = "no row has a value in every session on both sides; the table says why"
            if Verdict.INCOMPARABLE in counts:
                reason = "no row has values that were measured in the same way on both sides"
            return Gate("undecided", f"nothing was comparable: {reason}")
        if self.options.strict and (refused := self._measured_differently):
            rows = "row was" if refused == 1 else "rows were"
            return Gate("undecided", f"{refused} {rows} not measured in the same way on both sides (--strict)")
        decided = any(row.verdict is not Verdict.UNCLEAR for row in self._compared)
        if not decided and (not failing or MAY_BE_UNCLEAR.intersection(failing)):
            return Gate("undecided", f"nothing was decided: {self._describe_unclear()}")
        if not self.options.gate_text:
            return Gate("passed", "")
        if Verdict.UNCLEAR in counts:
            return Gate("passed", f"gate passed: {self._describe_unclear()}")
        return Gate("passed", f"gate passed ({self.options.gate_text})")

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

    def json(self) -> str:
        """NaN and infinities are null."""
        return TypeAdapter(Comparison).dump_json(self, indent=1).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON of a comparison as JSON Schema (draft 2020-12)."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | TypeAdapter(Comparison).json_schema(mode="serialization") | {"title": "kbench comparison"}
