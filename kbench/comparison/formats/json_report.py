"""A comparison as JSON, the format that programs should read. Its schema is `schema()`, and docs/compare.schema.json."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import GenerateJsonSchema

from kbench.comparison.environment_differences import Weight
from kbench.comparison.join import Side
from kbench.comparison.judge import ERROR_RATE
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation.report_lines import taken_out
from kbench.comparison.presentation.row_names import key_columns
from kbench.comparison.presentation.wording import finite
from kbench.comparison.stats import CONFIDENCE
from kbench.comparison.verdict import Verdict
from kbench.launches.code_change import CodeChange, code_change
from kbench.results.vocabulary import Status

Interval = tuple[float, float]

EXPORTED_PREFIX = "Exported"
"""`ExportedRow` is how a file writes a row. The schema calls it `Row`."""


class _Model(BaseModel):
    """No number in the file is NaN or infinite, and no key is one that the schema does not have."""

    model_config = ConfigDict(
        allow_inf_nan=False,
        extra="forbid",
        field_title_generator=lambda name, _: name,
        model_title_generator=lambda model: model.__name__.removeprefix(EXPORTED_PREFIX),
    )


class _WithoutPrefix(GenerateJsonSchema):
    """Names the definitions of the schema as its readers know them: `Row`."""

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).removeprefix(EXPORTED_PREFIX)


class Settings(_Model):
    """The settings of the comparison. The verdicts depend on them."""

    metric: str = Field(description="The column of the results that was compared.")
    better: Literal["less", "more"] = Field(description="Whether a smaller or a larger value of the metric is better.")
    margin: float = Field(description="The smallest change that matters, as a share.")
    error_rate: float = Field(description="A row that has a q is slower or faster only if its q is at most this.")
    confidence: float = Field(description="The confidence level of every interval.")
    vary: list[str] = Field(description="The conditions that the caller allowed to differ.")


class ExportedGate(_Model):
    """The gate, and whether the comparison passed. Without a gate it passes if at least one row is clear."""

    fail_on: list[str] = Field(description="The verdicts that fail the gate.")
    strict: bool = Field(
        description="Whether a row that was measured in different ways on the two sides also fails the gate."
    )
    passed: bool
    text: str = Field(
        description="The result in one sentence, as the report begins with it. It says how many rows are unclear. Empty if the "
        "comparison passed without a gate."
    )


class ExportedSide(_Model):
    """The measurements of a row on one side."""

    status: Status = Field(description="ok if every session has a time, otherwise the status of a session without one.")
    value: float | None = Field(
        description="The geometric mean of the metric over the sessions. Null if no session has a time and the metric."
    )
    sessions: int = Field(description="The number of sessions, with and without a time.")
    timed: int = Field(description="The number of sessions with a time.")
    kernels: list[int] = Field(
        description="How many kernels a call launches. Several numbers if sessions differ; empty if it is not known."
    )


class ExportedRow(_Model):
    """The verdict on one provider and case of one contender."""

    key: dict[str, int | float | str | bool | None] = Field(
        description="The columns that identify the row on both sides."
    )
    contender: str
    verdict: str = Field(json_schema_extra={"enum": [verdict.value for verdict in Verdict]})
    reason: str = Field(description="The reason for the verdict, and how to get a clear one. May be empty.")
    ratio: float | None = Field(
        description="The new value divided by the old value, without the machine's drift if the drift is known."
    )
    ci: Interval | None = Field(description="The confidence interval of the ratio.")
    q: float | None = Field(
        description="The lowest false discovery rate at which the row still counts as changed (Benjamini and Hochberg)."
    )
    code: CodeChange | None = Field(
        description="Whether both sides ran the same machine code. same-names: kbench knows the kernels only by their names "
        "and the versions of packages. mixed: it differs between the sessions of a side. "
        "Null if it is not known."
    )
    old: ExportedSide | None = Field(description="The baseline's side. Null if the baseline does not have the row.")
    new: ExportedSide | None = Field(description="The contender's side. Null if the contender does not have the row.")


class ExportedGeomean(_Model):
    """The geometric mean of a contender's ratios."""

    contender: str
    ratio: float | None
    ci: Interval | None
    rows: int = Field(description="The number of rows that have a ratio.")
    total: int = Field(description="The number of rows that the contender or the baseline has.")
    weighted: bool = Field(description="Whether rows count by how often their case occurs (column weight).")


class ExportedDrift(_Model):
    """How much slower or faster the machine became, measured by the copy controls and the unchanged baseline of both files."""

    contender: str
    device: str | None = Field(default=None, description="The device that drifted. Null if the files have one device.")
    ratio: float | None = Field(
        description="The time of a control on the contender's side, divided by its time on the baseline's side. It is the "
        "geometric mean of the copies and the unchanged baseline."
    )
    cases: int = Field(description="The number of cases that have a control. The ratio is the median over them.")
    noise: float = Field(
        description="The noise floor, as a share: in 95 % of the cases of a run, two measurements of the baseline differ by at "
        "most this. Between two files, it is the larger floor of the two."
    )
    taken_out: bool = Field(description="Whether the drift was subtracted from the changes of the rows.")


class ExportedDifference(_Model):
    """A property that differs between the file of the baseline and that of a contender."""

    contender: str
    name: str
    old: str
    new: str
    weight: Weight = Field(
        description="refuse: the difference forbids the comparison. warn: it may explain a change. varied: --vary allows it."
    )


class Report(_Model):
    """What `kbench compare --export json=FILE` writes."""

    version: Literal["kbench.compare/1"] = Field(
        alias="schema", description="The version of this format. It changes if programs that read it have to change."
    )
    baseline: str
    contenders: list[str]
    comparable: bool = Field(
        description="False if no row has values that were measured under the same conditions on both sides."
    )
    settings: Settings
    gate: ExportedGate
    summary: dict[str, int] = Field(description="The number of rows with each verdict. Every verdict is listed.")
    geomeans: list[ExportedGeomean]
    drifts: list[ExportedDrift]
    differences: list[ExportedDifference]
    notes: list[str] = Field(description="Assumptions, and what the comparison left out.")
    rows: list[ExportedRow]


def text(comparison: Comparison) -> str:
    return _report(comparison).model_dump_json(by_alias=True, indent=1) + "\n"


def schema() -> dict[str, Any]:
    """The report as JSON Schema (draft 2020-12)."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    generated = Report.model_json_schema(mode="serialization", schema_generator=_WithoutPrefix)
    return head | generated | {"title": "kbench comparison"}


def _report(comparison: Comparison) -> Report:
    rules, counts, result = comparison.rules, comparison.counts, comparison.gate.judge(comparison)
    return Report(
        schema="kbench.compare/1",
        baseline=comparison.baseline,
        contenders=list(comparison.contenders),
        comparable=comparison.comparable,
        settings=Settings(
            metric=rules.metric,
            better="less" if rules.compared.lower_is_better else "more",
            margin=rules.margin,
            error_rate=ERROR_RATE,
            confidence=CONFIDENCE,
            vary=sorted(rules.vary),
        ),
        gate=ExportedGate(
            fail_on=[verdict.value for verdict in comparison.gate.fail_on],
            strict=comparison.gate.strict,
            passed=result.passed,
            text=result.text,
        ),
        summary={verdict.value: counts.get(verdict, 0) for verdict in Verdict},
        geomeans=[
            ExportedGeomean(
                contender=mean.contender,
                ratio=finite(mean.ratio),
                ci=_interval(mean.ci),
                rows=mean.rows,
                total=mean.total,
                weighted=mean.weighted,
            )
            for mean in comparison.geomeans
        ],
        drifts=[
            ExportedDrift(
                contender=contender,
                device=device or None,
                ratio=None if part.change is None else finite(math.exp(part.change)),
                cases=part.cases,
                noise=part.noise,
                taken_out=taken_out(part, rules.metric),
            )
            for contender, drift in comparison.drifts.items()
            for device, part in drift.parts.items()
        ],
        differences=[
            ExportedDifference(
                contender=found.contender,
                name=found.name,
                old=found.old,
                new=found.new,
                weight=found.weight,
            )
            for found in comparison.differences
        ],
        notes=[note for note in (comparison.nothing_common, *comparison.notes) if note],
        rows=[_row(row, comparison) for row in comparison.rows],
    )


def _row(row: JudgedRow, comparison: Comparison) -> ExportedRow:
    return ExportedRow(
        key=key_columns(row, comparison),
        contender=row.contender,
        verdict=row.verdict.value,
        reason=row.reason,
        ratio=finite(row.ratio),
        ci=_interval(row.ci),
        q=finite(row.q),
        code=code_change(row.old.ran, row.new.ran) if row.old and row.new else None,
        old=_side(row.old),
        new=_side(row.new),
    )


def _side(side: Side | None) -> ExportedSide | None:
    if side is None:
        return None
    return ExportedSide(
        status=side.status,
        value=finite(side.value),
        sessions=side.sessions,
        timed=side.timed,
        kernels=sorted(side.ran.kernels),
    )


def _interval(ci: tuple[float, float] | None) -> Interval | None:
    return ci if ci and all(map(math.isfinite, ci)) else None
