"""A comparison as JSON, the format that programs should read. Its schema is `schema()`, and docs/compare.schema.json."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kbench.comparison.environment_differences import Weight
from kbench.comparison.join import Side as Measured
from kbench.comparison.judge import ERROR_RATE
from kbench.comparison.model import Comparison, JudgedRow
from kbench.comparison.presentation.report_lines import taken_out
from kbench.comparison.presentation.row_names import key_columns
from kbench.comparison.presentation.wording import finite, plain
from kbench.comparison.stats import CONFIDENCE
from kbench.comparison.verdict import Verdict
from kbench.results.vocabulary import Status

Interval = tuple[float, float]


class _Model(BaseModel):
    """No number in the file is NaN or infinite, and no key is one that the schema does not have."""

    model_config = ConfigDict(allow_inf_nan=False, extra="forbid", field_title_generator=lambda name, _: name)


class Settings(_Model):
    """What the verdicts were given by."""

    metric: str = Field(description="The column of the results that was compared.")
    better: Literal["less", "more"] = Field(description="Which way the metric improves.")
    margin: float = Field(description="The smallest change of interest, as a share.")
    error_rate: float = Field(description="The q up to which a row may be called slower or faster.")
    confidence: float = Field(description="That of every interval.")
    vary: list[str] = Field(description="What was meant to differ.")


class Gate(_Model):
    """What was asked of the comparison, and whether it passed; without a gate it does, if anything was comparable."""

    fail_on: list[str] = Field(description="The verdicts that fail it.")
    strict: bool = Field(description="Whether a row that was measured in another way on one side fails it too.")
    passed: bool


class Side(_Model):
    """A row on one side."""

    status: Status = Field(description="ok when every session has a time.")
    value: float | None = Field(description="The metric: the geometric mean of the sessions' values.")
    sessions: int = Field(description="How many there are, with a time or without.")
    timed: int = Field(description="How many have a time.")


class Row(_Model):
    """The verdict on one thing that was measured, for one contender."""

    key: dict[str, int | float | str | bool | None] = Field(
        description="The columns by which the sides were joined. With `by: provider` neither provider nor params is one."
    )
    contender: str
    verdict: str = Field(json_schema_extra={"enum": [verdict.value for verdict in Verdict]})
    reason: str = Field(description="Why, and what would settle it; may be empty.")
    ratio: float | None = Field(description="New over old value, the machine's drift taken out where it is known.")
    ci: Interval | None = Field(description="The ratio's interval.")
    q: float | None = Field(description="False discovery rate of a list of changed rows that ends with this one.")
    old: Side | None = Field(description="The baseline's; null where it does not have the row.")
    new: Side | None = Field(description="The contender's; null where it does not have the row.")


class Geomean(_Model):
    """The geometric mean of a contender's ratios."""

    contender: str
    ratio: float | None
    ci: Interval | None
    rows: int = Field(description="Rows that have a ratio.")
    total: int = Field(description="Rows of the contender or the baseline.")


class Drift(_Model):
    """How the machine moved, by the copy controls of both files."""

    contender: str
    device: str | None = Field(default=None, description="Whose drift it is, where a fleet has measured a side.")
    ratio: float | None = Field(description="A copy's time on the contender's side over that on the baseline's.")
    cases: int = Field(description="How many copies that is the median of.")
    noise: float = Field(description="What 95 % of readings of the same code in one session stay within, as a share.")
    taken_out: bool = Field(description="Whether the ratios of the rows are without it.")


class Difference(_Model):
    """Something that two files do not have in common."""

    contender: str
    name: str
    old: str
    new: str
    weight: Weight = Field(description="It forbids the comparison, may explain a change, or is varied on purpose.")


class Report(_Model):
    """What `kbench compare --export json=FILE` writes."""

    version: Literal["kbench.compare/1"] = Field(alias="schema", description="Changes when a reader would break.")
    by: Literal["file", "provider"] = Field(description="Whether the sides are files, or providers of one file.")
    source: str = Field(description="That one file, else empty.")
    baseline: str
    contenders: list[str]
    comparable: bool = Field(description="False when no row is on both sides under equal conditions.")
    settings: Settings
    gate: Gate
    summary: dict[str, int] = Field(description="Rows by verdict, all verdicts.")
    geomeans: list[Geomean]
    drifts: list[Drift]
    differences: list[Difference]
    notes: list[str] = Field(description="What was assumed or left out.")
    rows: list[Row]


def text(comparison: Comparison) -> str:
    return _report(comparison).model_dump_json(by_alias=True, indent=1) + "\n"


def schema() -> dict[str, Any]:
    """The report as JSON Schema (draft 2020-12)."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | Report.model_json_schema(mode="serialization") | {"title": "kbench comparison"}


def _report(comparison: Comparison) -> Report:
    rules, counts = comparison.rules, comparison.counts
    return Report(
        schema="kbench.compare/1",
        by="provider" if comparison.by == "provider" else "file",
        source=plain(comparison.source),
        baseline=plain(comparison.baseline),
        contenders=[plain(contender) for contender in comparison.contenders],
        comparable=comparison.comparable,
        settings=Settings(
            metric=rules.metric,
            better="less" if rules.compared.lower_is_better else "more",
            margin=rules.margin,
            error_rate=ERROR_RATE,
            confidence=CONFIDENCE,
            vary=sorted(rules.vary),
        ),
        gate=Gate(
            fail_on=[verdict.value for verdict in comparison.gate.fail_on],
            strict=comparison.gate.strict,
            passed=comparison.gate.judge(comparison).passed,
        ),
        summary={verdict.value: counts.get(verdict, 0) for verdict in Verdict},
        geomeans=[
            Geomean(
                contender=plain(mean.contender),
                ratio=finite(mean.ratio),
                ci=_interval(mean.ci),
                rows=mean.rows,
                total=mean.total,
            )
            for mean in comparison.geomeans
        ],
        drifts=[
            Drift(
                contender=plain(contender),
                device=plain(device) or None,
                ratio=None if part.change is None else finite(math.exp(part.change)),
                cases=part.cases,
                noise=part.noise,
                taken_out=taken_out(part, rules.metric),
            )
            for contender, drift in comparison.drifts.items()
            for device, part in drift.parts.items()
        ],
        differences=[
            Difference(
                contender=plain(found.contender),
                name=plain(found.name),
                old=plain(found.old),
                new=plain(found.new),
                weight=found.weight,
            )
            for found in comparison.differences
        ],
        notes=[plain(note) for note in (comparison.nothing_common, *comparison.notes) if note],
        rows=[_row(row, comparison) for row in comparison.rows],
    )


def _row(row: JudgedRow, comparison: Comparison) -> Row:
    return Row(
        key=key_columns(row, comparison),
        contender=plain(row.contender),
        verdict=row.verdict.value,
        reason=plain(row.reason),
        ratio=finite(row.ratio),
        ci=_interval(row.ci),
        q=finite(row.q),
        old=_side(row.old),
        new=_side(row.new),
    )


def _side(side: Measured | None) -> Side | None:
    if side is None:
        return None
    return Side(status=side.status, value=finite(side.value), sessions=side.sessions, timed=len(side.readings))


def _interval(ci: tuple[float, float] | None) -> Interval | None:
    return ci if ci and all(map(math.isfinite, ci)) else None
