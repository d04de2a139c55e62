"""What a comparison consists of: its options, the two sides of each row with their verdict, the drift of the machine, what else
differs between the files, and the gate.

These types are also its JSON, the format that programs should read. `schema` describes it, as docs/compare.schema.json does.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainSerializer, TypeAdapter, computed_field, with_config

from kbench.analysis.cases import weight_of
from kbench.analysis.metrics import METRICS, Metric, metric_by_name
from kbench.comparison.verdict import Cause, Reason, Verdict
from kbench.errors import UsageError
from kbench.launches.code_change import CodeChange, RanKernels, code_change
from kbench.results.case import DTYPE_ALIASES, Case, Value, configuration_name, value_order
from kbench.results.cells import MARGIN, is_plausible
from kbench.results.row import CONDITION_COLUMNS, Row
from kbench.results.vocabulary import Flag, Status
from kbench.text.suggest import unknown

CONDITIONS = (*CONDITION_COLUMNS, "case_hash")
"""Two times are comparable when these columns agree."""

ENOUGH_CASES = 5
"""The drift is subtracted from the rows if this many cases have a gauge. The gauges of a few cases may be noisier than the
rows."""

ONE_KIND = 1.5
"""The drift explains this many times as much if there is one kind of gauge. Nothing then shows how far a kernel and a copy
can be apart."""

MAX_LOG_RATIO = 700.0
"""The largest logarithm of a ratio that a float can hold."""

OF_TIMES = {Verdict.SLOWER, Verdict.FASTER, Verdict.SAME, Verdict.UNCLEAR}
"""The verdicts of rows that have a ratio. A gate for others decides without times."""

_SHORT_DTYPES = {dtype: alias for alias, dtype in DTYPE_ALIASES.items() if alias.startswith(("fp", "bf"))}

exported = with_config(ConfigDict(extra="forbid", use_attribute_docstrings=True))
"""The fields of such a class are keys of the JSON. The text below a field is its description in the schema."""


@dataclass(frozen=True)
class CompareOptions:
    """What the caller of a comparison chooses beside its files. The command line and the Python API both make one.

    where     which rows to compare, as kbench/results/row_filter.py reads it
    metric    column to compare
    margin    smallest change of interest, as a share
    vary      names of what differs on purpose: `torch`, `driver`, `device`
    fail_on   verdicts that fail the gate; without any, every comparison that decided something passes
    strict    rows that were measured in different ways on the two sides do not pass the gate

    Raises UsageError for a value that cannot be used.
    """

    where: str = ""
    metric: str = "ms"
    margin: float = MARGIN
    vary: tuple[str, ...] = ()
    fail_on: tuple[str, ...] = ()
    strict: bool = False

    def __post_init__(self) -> None:
        metric_by_name(self.metric, timed=True)
        if not 0 < self.margin < 1:
            raise UsageError("--margin: must be more than 0% and less than 100%; give a share such as 2% or 0.02")
        words = [verdict.value for verdict in Verdict]
        if strange := sorted(set(self.fail_on) - set(words)):
            raise UsageError(f"--fail-on: {unknown('verdict', strange[0], words)}")

    @property
    def gate_text(self) -> str:
        """The options of the gate as the caller wrote them; "" without any."""
        options = [f"--fail-on {','.join(self.fail_on)}"] if self.fail_on else []
        return " ".join([*options, *(["--strict"] if self.strict else [])])

    @property
    def compared(self) -> Metric:
        return METRICS[self.metric]

    def ratio(self, effect: float) -> float:
        """The ratio of the metric for a change in log time."""
        # an interval may have no end that a float holds: the time of one unit of work can be far below the timer's step
        return math.exp(min(-effect * self.compared.sign, MAX_LOG_RATIO))

    def interval(self, effect: float, half_width: float) -> tuple[float, float]:
        """The interval of that ratio, the lower end first."""
        ends = (self.ratio(effect - half_width), self.ratio(effect + half_width))
        return min(ends), max(ends)


@dataclass(frozen=True)
class Key:
    """The identity of a row without its session. The case has the axes that both files have.

    `analysis.CaseKey` also holds the device, the timer and the cache mode. Here these must agree (CONDITIONS), but the device
    is an axis if a file has several.
    """

    case: Case
    provider: str
    params: str

    @classmethod
    def of(cls, row: Row, axes: Sequence[str]) -> Key:
        """The key of a row. `axes` are the columns that identify a case in both files."""
        values = {axis: row.device if axis == "device" else row.case.axes[axis] for axis in axes}
        return cls(Case(row.case.operator, values, row.case.dtype), row.provider, row.params)

    @property
    def columns(self) -> dict[str, Value]:
        """The columns that identify the row, for programs: values keep their type."""
        who: dict[str, Value] = {
            "operator": self.case.operator,
            "provider": self.provider,
            "params": self.params,
        }
        return {**who, **self.case.axes, "dtype": self.case.dtype}

    @property
    def configuration_name(self) -> str:
        return configuration_name(self.provider, self.params)

    @property
    def parts(self) -> dict[str, str]:
        """The parts of the name by column, as reports show them: the dtype is `bf16`."""
        axes = {name: str(value) for name, value in self.case.axes.items()}
        dtype = _SHORT_DTYPES.get(self.case.dtype, self.case.dtype)
        return {
            "operator": self.case.operator,
            "dtype": dtype,
            **axes,
            "provider": self.configuration_name,
        }

    @property
    def label(self) -> str:
        """`softmax M=4096 N=256 float32 triton`"""
        return f"{self.case.label} {self.configuration_name}"

    @property
    def order(self) -> tuple[Any, ...]:
        """For sorting: numbers by size, words by letter, modes in their own order."""
        axes = list(map(value_order, self.case.axes.values()))
        return (self.case.operator, self.case.dtype, axes, self.provider, self.params)


@exported
@dataclass(frozen=True)
class Side:
    """The sessions of a row on one side."""

    readings: Annotated[tuple[Row, ...], Field(exclude=True)]
    """The rows of the sessions that have a time and the metric."""
    values: Annotated[dict[int, float], Field(exclude=True)]
    """The metric by session."""
    sessions: int
    """The number of sessions, with and without a time."""
    timed: int
    """The number of sessions with a time, with and without the metric."""
    status: Status
    """ok if every session has a time, else the status of the first that failed, else of the first without a time."""
    reason: str
    """Why that session has no time."""
    conditions: dict[str, tuple[str, ...]]
    """The device, the timer, the cache mode and the definition of the case; several values where sessions differ."""
    suspect: bool
    """Whether at least one session is faster than it can be."""
    weight: float | None
    """How often the case occurs. Null if the file does not tell."""
    ran: Annotated[RanKernels, Field(exclude=True)]
    """The kernels that it ran."""

    @classmethod
    def of(cls, rows: Sequence[Row], metric: str) -> Side:
        """The side with these rows, one for each session."""
        timed = [row for row in rows if row.ms is not None]
        lost = [(row.status, row.reason) for row in rows if row.ms is None]
        status, reason = min(lost, key=lambda loss: not loss[0].failed, default=(Status.OK, ""))
        readings = tuple(row for row in timed if is_plausible(getattr(row, metric) or 0.0))
        return cls(
            readings=readings,
            values={row.session: getattr(row, metric) for row in readings},
            sessions=len(rows),
            timed=len(timed),
            status=status,
            reason=reason,
            conditions={name: tuple(sorted({getattr(row, name) for row in timed})) for name in CONDITIONS},
            suspect=any(Flag.SUSPECT in row.flags for row in timed),
            weight=weight_of(rows),
            ran=RanKernels.of(timed),
        )

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def value(self) -> float | None:
        """The geometric mean of the metric over the sessions. Null if no session has a time and the metric."""
        return statistics.geometric_mean(self.values.values()) if self.values else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def kernels(self) -> list[int]:
        """How many kernels a call launches. Several numbers if sessions differ; empty if it is not known."""
        return sorted(self.ran.kernels)

    def differing_conditions(self, other: Side, vary: Collection[str]) -> dict[str, str]:
        """The conditions that differ between the sides or within one, by name, as `timer do_bench -> graph`. Those in `vary`
        are ignored."""
        return {
            name: f"{name} {'/'.join(values) or 'unknown'} -> {'/'.join(other.conditions[name]) or 'unknown'}"
            + " (the operator's source, inputs, bytes or tolerance)" * (name == "case_hash")
            for name, values in self.conditions.items()
            if name not in vary and (values != other.conditions[name] or len(values) != 1)
        }


@exported
@dataclass(frozen=True)
class JudgedRow:
    """The verdict on one configuration in one case."""

    key: Annotated[Key, PlainSerializer(lambda key: key.columns, return_type=dict[str, Value])]
    """The columns that identify the row on both sides."""
    old: Side | None
    """The old side. Null if it does not have the row."""
    new: Side | None
    """The new side. Null if it does not have the row."""
    verdict: Verdict
    reasons: Annotated[tuple[Reason, ...], Field(exclude=True)] = ()
    """Why the row has its verdict."""
    ratio: float | None = None
    """The new value divided by the old value (ms: 2.0 takes twice as long; gbps: 2.0 is twice as fast), without the machine's
    drift if the drift is known."""
    ci: tuple[float, float] | None = None
    """The 95 % interval of the ratio. With one session on a side (q is null) it is what one session can show instead: at least
    3 % to both sides."""
    q: float | None = None
    """The lowest false discovery rate at which the row still counts as changed (Benjamini and Hochberg)."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def reason(self) -> str:
        """The reasons for the verdict, and how to get a clear one. May be empty."""
        return "; ".join(filter(None, map(str, self.reasons)))

    @computed_field  # type: ignore[prop-decorator]
    @property
    def code(self) -> CodeChange | None:
        """Whether both sides ran the same machine code. same-names: kbench knows the kernels only by their names and the
        versions of packages. mixed: it differs between the sessions of a side. Null if it is not known."""
        return code_change(self.old.ran, self.new.ran) if self.old and self.new else None

    def comes_from(self, *causes: Cause) -> bool:
        """Whether one of these causes led to the verdict."""
        return any(reason.cause in causes for reason in self.reasons)


@exported
@dataclass(frozen=True)
class Drift:
    """How much slower the machine became, by its gauges: the copy controls and the unchanged baseline of both files."""

    shifts: Annotated[dict[tuple[int, int], float], Field(exclude=True)] = field(default_factory=dict)
    """How much slower the machine was in a session than on the average of both sides, in log time. The keys are the side (0 is
    the old one) and the session. It is the median over the cases, and the mean over the kinds of gauges. Sessions that
    measured few of the cases have a shift too, but `gauges` do not include them."""
    gauges: dict[str, float] = field(default_factory=dict)
    """For each kind of gauge, how much slower it became, in log time."""
    cases: int = 0
    """The number of cases that have a gauge."""
    noise: float = 0.0
    """The noise floor, as a share: in 95 % of the cases of a run, two measurements of the baseline differ by at most this.
    It is the larger floor of the two files."""
    scatter: float = 0.0
    """The standard deviation of the changes of the gauges around those of their kind, in log time."""
    own: Annotated[dict[Case, float], Field(exclude=True)] = field(default_factory=dict)
    """For each case, how far the change of its gauges is from that of their kind, in log time."""

    @property
    def change(self) -> float | None:
        """How much slower the machine became, in log time; None if the files have no gauge in common."""
        return statistics.fmean(self.gauges.values()) if self.gauges else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratio(self) -> float | None:
        """The time of a gauge on the new side, divided by its time on the old side. Null if the files have no gauge in
        common."""
        return None if self.change is None else math.exp(self.change)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def subtracted(self) -> bool:
        """Whether enough cases have gauges to subtract the drift from the rows of a metric that contains it."""
        return self.cases >= ENOUGH_CASES

    @property
    def explains(self) -> tuple[float, float]:
        """The changes of rows, in log time, that may come from the drift: from the lowest to the highest.

        A kernel may have drifted by more or by less than each kind of gauge: by as much as the kind that drifted most.
        """
        if self.change is None:
            return 0.0, 0.0
        changes, taken = self.gauges.values(), self.change if self.subtracted else 0.0
        apart = max(map(abs, changes)) * (1.0 if len(changes) > 1 else ONE_KIND)
        return min(changes) - apart - taken, max(changes) + apart - taken


class Severity(str, enum.Enum):
    """What a difference does: it makes rows incomparable, may explain a change, or is intended."""

    CONDITION = "condition"
    WARN = "warn"
    VARIED = "varied"


@exported
@dataclass(frozen=True)
class EnvironmentDifference:
    """A property that differs between two files."""

    name: str
    old: str
    new: str
    severity: Severity
    """condition: the rows that it concerns are incomparable. warn: it may explain a change. varied: --vary allows it."""


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
    places: Mapping[str, str] = field(default_factory=dict)
    """Where each provider of the new side is defined, from the folder of the run: `kernels/mine.py:12`."""

    @cached_property
    def common(self) -> dict[str, str]:
        """The parts of names that all rows share. The provider is not one of them if no other part would be left."""
        values_of: dict[str, set[str]] = {}
        for row in self.rows:
            for name, value in row.key.parts.items():
                values_of.setdefault(name, set()).add(value)
        if all(len(values) == 1 for name, values in values_of.items() if name != "provider"):
            values_of.pop("provider", None)
        return {name: value for name, (value, *others) in values_of.items() if not others}

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
        """Whether any row has plausible values on both sides that were measured in the same way."""
        return any(row.ratio is not None for row in self.rows)

    @property
    def passed(self) -> bool:
        """Whether the gate passed: a row with values on both sides is clear, and no row has a verdict in `fail_on`."""
        return self.gate.passed

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def gate(self) -> Gate:
        """What the comparison says of the verdicts that the options want to fail on."""
        counts, failing = self.counts, self.options.fail_on
        if not any(row.old and row.new for row in self.rows):
            return Gate("undecided", "nothing was comparable: the sides have no row in common")
        if failed := [f"{count} {verdict}" for verdict, count in counts.items() if verdict in failing]:
            return Gate("failed", f"gate failed: {', '.join(failed)} ({self.options.gate_text})")
        asks_for_times = not failing or not OF_TIMES.isdisjoint(failing)
        if not (self.comparable if asks_for_times else self._has_outcome):
            reason = "no row has a plausible value in every session on both sides; the table says why"
            if Verdict.INCOMPARABLE in counts:
                reason = "no row has values that were measured in the same way on both sides"
            return Gate("undecided", f"nothing was comparable: {reason}")
        if self.options.strict and (refused := counts.get(Verdict.INCOMPARABLE)):
            rows = "row was" if refused == 1 else "rows were"
            return Gate("undecided", f"{refused} {rows} not measured in the same way on both sides (--strict)")
        clear = any(row.ratio is not None and row.verdict is not Verdict.UNCLEAR for row in self.rows)
        if asks_for_times and not clear:
            return Gate("undecided", f"nothing was decided: {self._describe_unclear()}")
        if not self.options.gate_text:
            return Gate("passed", "")
        if Verdict.UNCLEAR in counts:
            return Gate("passed", f"gate passed: {self._describe_unclear()}")
        if clear and all(row.comes_from(Cause.ONE_MEASUREMENT) for row in self.rows if row.ratio is not None):
            return Gate("passed", f"gate passed: {Cause.ONE_MEASUREMENT.value} ({self.options.gate_text})")
        return Gate("passed", f"gate passed ({self.options.gate_text})")

    @property
    def _has_outcome(self) -> bool:
        """What a gate needs that asks for no times: `fixed` is an outcome without a ratio, and so is a check."""
        for row in self.rows:
            checked = row.new and row.new.status is Status.CHECKED
            if row.old and row.new and (checked or row.verdict not in (Verdict.INCOMPARABLE, Verdict.UNTIMED)):
                return True
        return False

    def _describe_unclear(self) -> str:
        """`no row is slower, but 2 of 6 compared rows are unclear (--fail-on slower,unclear fails on them)`"""
        count, failing = self.counts[Verdict.UNCLEAR], self.options.fail_on
        verb = "is" if count == 1 else "are"
        unclear = f"{count} of {self.geomean.rows} compared rows {verb} unclear"
        if not failing:
            return unclear
        none = " or ".join(filter(None, [", ".join(failing[:-1]), failing[-1]]))
        more = ",".join([*failing, Verdict.UNCLEAR])
        return f"no row is {none}, but {unclear} (--fail-on {more} fails on them)"

    def json(self) -> str:
        """NaN and infinities are null."""
        return TypeAdapter(Comparison).dump_json(self, indent=1).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON of a comparison as JSON Schema (draft 2020-12)."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | TypeAdapter(Comparison).json_schema(mode="serialization") | {"title": "kbench comparison"}
