"""A comparison as JSON, the format that programs should read. Its schema is `schema()`, and docs/compare.schema.json.

The types here state the keys, and mypy checks that the functions below fill them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, with_config

from kbench.comparison import join, model
from kbench.comparison.environment_differences import Weight
from kbench.comparison.judge import ERROR_RATE
from kbench.comparison.report import taken_out
from kbench.comparison.stats import CONFIDENCE
from kbench.comparison.verdict import Verdict
from kbench.launches.code_change import CodeChange, code_change
from kbench.results.case import Value
from kbench.results.vocabulary import Status

Interval = tuple[float, float]

documented = with_config(ConfigDict(extra="forbid", use_attribute_docstrings=True))
"""A file has no other keys than these. The text below a key is its description in the schema."""


@documented
@dataclass(frozen=True)
class Settings:
    """The settings of the comparison. The verdicts depend on them."""

    metric: str
    """The column of the results that was compared."""
    better: Literal["less", "more"]
    """Whether a smaller or a larger value of the metric is better."""
    margin: float
    """The smallest change that matters, as a share."""
    error_rate: float
    """A row that has a q is slower or faster only if its q is at most this."""
    confidence: float
    """The confidence level of every interval."""
    vary: list[str]
    """The conditions that the caller allowed to differ."""


@documented
@dataclass(frozen=True)
class Gate:
    """The gate, and whether the comparison passed. Without a gate it passes if at least one row is clear."""

    fail_on: list[str]
    """The verdicts that fail the gate."""
    strict: bool
    """Whether a row that was measured in different ways on the two sides also fails the gate."""
    passed: bool
    text: str
    """The result in one sentence, as the report begins with it. It says how many rows are unclear. Empty if the comparison
    passed without a gate."""


@documented
@dataclass(frozen=True)
class Side:
    """The measurements of a row on one side."""

    status: Status
    """ok if every session has a time, otherwise the status of a session without one."""
    value: float | None
    """The geometric mean of the metric over the sessions. Null if no session has a time and the metric."""
    sessions: int
    """The number of sessions, with and without a time."""
    timed: int
    """The number of sessions with a time."""
    kernels: list[int]
    """How many kernels a call launches. Several numbers if sessions differ; empty if it is not known."""


@documented
@dataclass(frozen=True)
class Row:
    """The verdict on one provider and case."""

    key: dict[str, Value]
    """The columns that identify the row on both sides."""
    contender: str
    """The label of the new side."""
    verdict: Annotated[str, Field(json_schema_extra={"enum": [verdict.value for verdict in Verdict]})]
    reason: str
    """The reason for the verdict, and how to get a clear one. May be empty."""
    ratio: float | None
    """The new value divided by the old value, without the machine's drift if the drift is known."""
    ci: Interval | None
    """The confidence interval of the ratio."""
    q: float | None
    """The lowest false discovery rate at which the row still counts as changed (Benjamini and Hochberg)."""
    code: CodeChange | None
    """Whether both sides ran the same machine code. same-names: kbench knows the kernels only by their names and the
    versions of packages. mixed: it differs between the sessions of a side. Null if it is not known."""
    old: Side | None
    """The old side. Null if it does not have the row."""
    new: Side | None
    """The new side. Null if it does not have the row."""


@documented
@dataclass(frozen=True)
class Geomean:
    """The geometric mean of the ratios."""

    contender: str
    """The label of the new side."""
    ratio: float | None
    ci: Interval | None
    rows: int
    """The number of rows that have a ratio."""
    total: int
    """The number of rows that one of the sides has."""
    weighted: bool
    """Whether rows count by how often their case occurs (column weight)."""


@documented
@dataclass(frozen=True)
class Drift:
    """How much slower or faster the machine became, measured by the copy controls and the unchanged baseline of both files."""

    contender: str
    """The label of the new side."""
    device: str | None
    """The device that drifted. Null if the files have one device."""
    ratio: float | None
    """The time of a control on the new side, divided by its time on the old side. It is the geometric mean of the copies and
    the unchanged baseline."""
    cases: int
    """The number of cases that have a control. The ratio is the median over them."""
    noise: float
    """The noise floor, as a share: in 95 % of the cases of a run, two measurements of the baseline differ by at most this.
    Between two files, it is the larger floor of the two."""
    taken_out: bool
    """Whether the drift was subtracted from the changes of the rows."""


@documented
@dataclass(frozen=True)
class Difference:
    """A property that differs between the two files."""

    contender: str
    """The label of the new side."""
    name: str
    old: str
    new: str
    weight: Weight
    """refuse: the difference forbids the comparison. warn: it may explain a change. varied: --vary allows it."""


@documented
@dataclass(frozen=True)
class Report:
    """What `kbench compare --export json=FILE` writes."""

    schema: Literal["kbench.compare/1"]
    """The version of this format. It changes if programs that read it have to change."""
    baseline: str
    """The label of the old side."""
    contenders: list[str]
    """The label of the new side, alone in its list."""
    comparable: bool
    """False if no row has values that were measured under the same conditions on both sides."""
    settings: Settings
    gate: Gate
    summary: dict[str, int]
    """The number of rows with each verdict. Every verdict is listed."""
    geomeans: list[Geomean]
    drifts: list[Drift]
    differences: list[Difference]
    notes: list[str]
    """Assumptions, and what the comparison left out."""
    rows: list[Row]


def text(comparison: model.Comparison) -> str:
    """NaN and infinities are null."""
    return TypeAdapter(Report).dump_json(_report(comparison), indent=1).decode() + "\n"


def schema() -> dict[str, Any]:
    """The report as JSON Schema (draft 2020-12)."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | TypeAdapter(Report).json_schema(mode="serialization") | {"title": "kbench comparison"}


def _report(comparison: model.Comparison) -> Report:
    options, counts, new = comparison.options, comparison.counts, comparison.new
    mean = comparison.geomean
    return Report(
        schema="kbench.compare/1",
        baseline=comparison.old,
        contenders=[new],
        comparable=comparison.comparable,
        settings=Settings(
            metric=options.metric,
            better="less" if options.compared.lower_is_better else "more",
            margin=options.margin,
            error_rate=ERROR_RATE,
            confidence=CONFIDENCE,
            vary=sorted(set(options.vary)),
        ),
        gate=Gate(
            fail_on=[verdict.value for verdict in options.failing],
            strict=options.strict,
            passed=comparison.gate.passed,
            text=comparison.gate.text,
        ),
        summary={verdict.value: counts.get(verdict, 0) for verdict in Verdict},
        geomeans=[Geomean(new, mean.ratio, mean.ci, mean.rows, mean.total, mean.weighted)],
        drifts=[
            Drift(
                contender=new,
                device=device or None,
                ratio=None if drift.change is None else math.exp(drift.change),
                cases=drift.cases,
                noise=drift.noise,
                taken_out=taken_out(drift, options),
            )
            for device, drift in comparison.drifts.items()
        ],
        differences=[Difference(new, each.name, each.old, each.new, each.weight) for each in comparison.differences],
        notes=[note for note in (comparison.nothing_common, *comparison.notes) if note],
        rows=[_row(row, new) for row in comparison.rows],
    )


def _row(row: model.JudgedRow, new: str) -> Row:
    return Row(
        key=row.key.columns,
        contender=new,
        verdict=row.verdict.value,
        reason=row.reason,
        ratio=row.ratio,
        ci=row.ci,
        q=row.q,
        code=code_change(row.old.ran, row.new.ran) if row.old and row.new else None,
        old=_side(row.old),
        new=_side(row.new),
    )


def _side(side: join.Side | None) -> Side | None:
    if side is None:
        return None
    return Side(side.status, side.value, side.sessions, side.timed, sorted(side.ran.kernels))
