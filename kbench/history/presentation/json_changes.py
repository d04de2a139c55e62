"""A judged history as JSON, for programs. Its schema is `history_schema()`; `kbench schema history` prints it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kbench.comparison.verdict import Verdict
from kbench.history.options import CHANGE_KINDS
from kbench.history.report import HistoryChange, HistoryReport, JudgedSeries
from kbench.history.timeline import RunPoint, SeriesKey
from kbench.results.case import Value

_VERSION: Literal["kbench.history-check/1"] = "kbench.history-check/1"

_WORDS: Any = {"enum": [kind.value for kind in (*CHANGE_KINDS, Verdict.UNTIMED)]}


class _Model(BaseModel):
    """No number is NaN or infinite, and no key is one that the schema does not have."""

    model_config = ConfigDict(
        allow_inf_nan=False,
        extra="forbid",
        field_title_generator=lambda name, _: name,
        model_title_generator=lambda model: model.__name__.removeprefix("History"),
    )


class HistoryIdentity(_Model):
    """What a series measures."""

    machine: str
    operator: str
    provider: str
    params: str
    axes: dict[str, Value]
    dtype: str
    timer: str
    cache: str
    case_hash: str


class HistoryPoint(_Model):
    """A run of a series. For a change: the last one before it, or the first one after it."""

    run: int = Field(description="The number of the run in the history, from 0, in the order of time.")
    started_at: str
    commit: str
    status: str
    ms: float | None = Field(description="The time without the drift of the machine; null without a time.")


class HistoryProperty(_Model):
    """A property that moved. `none` stands for a property that one side lacks."""

    name: str
    old: str
    new: str


class HistoryBaseline(_Model):
    """The baseline of the same case, if its level changed in the same runs."""

    provider: str
    ratio: float


class HistoryMoved(_Model):
    """What moved with a change."""

    code: list[HistoryProperty]
    baseline: HistoryBaseline | None
    machine: list[HistoryProperty]
    copies: float | None = Field(
        description="The time of the copy control after the change, divided by that before. kbench has subtracted this drift. "
        "Null if it is less than the margin."
    )
    stack: list[HistoryProperty]
    settings: list[HistoryProperty]


class HistoryEntry(_Model):
    """A change."""

    kind: str = Field(json_schema_extra=_WORDS)
    recent: bool = Field(description="Whether it began in one of the last runs. Only recent changes fail the gate.")
    series: HistoryIdentity
    before: HistoryPoint | None
    at: HistoryPoint
    earliest_run: int
    latest_run: int = Field(description="The change began in a run from `earliest_run` to `latest_run`.")
    reason: str
    old_ms: float | None = Field(description="The level before, without the drift of the machine.")
    new_ms: float | None
    ratio: float | None = Field(
        description="`new_ms` divided by `old_ms`; null if the status changed and not the level."
    )
    ci: tuple[float, float] | None = Field(description="The 95 % interval of the ratio.")
    moved: HistoryMoved


class HistorySeries(_Model):
    """A series, whether it changed or not."""

    series: HistoryIdentity
    noise: float = Field(description="The standard deviation of a point, as a share of the time.")
    points: list[HistoryPoint]


class HistoryDocument(_Model):
    """The outcome of `kbench history check`."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    version: Literal["kbench.history-check/1"] = Field(
        alias="schema", description="The version of this format. It changes if programs that read it have to change."
    )
    passed: bool = Field(description="Whether no recent change is of a kind that --fail-on lists.")
    fail_on: list[str]
    margin: float
    runs: int
    notes: list[str] = Field(description="Files of the folder that could not be read.")
    uncorrected: int = Field(description="Timed readings without a copy control in their session.")
    changes: list[HistoryEntry] = Field(description="All changes, in the order of time, recent or not.")
    series: list[HistorySeries]


def history_schema() -> dict[str, Any]:
    """The JSON Schema of the document."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | HistoryDocument.model_json_schema(mode="serialization")


def history_json(report: HistoryReport) -> str:
    """The document, with a line break at its end."""
    document = HistoryDocument(
        schema=_VERSION,
        passed=not report.failing,
        fail_on=list(report.options.fail_on),
        margin=report.options.margin,
        runs=len(report.timeline.runs),
        notes=list(report.timeline.notes),
        uncorrected=report.timeline.uncorrected,
        changes=[_entry(change, report) for change in report.changes],
        series=[_series(each, report) for each in report.series],
    )
    return document.model_dump_json(indent=2) + "\n"


def _entry(change: HistoryChange, report: HistoryReport) -> HistoryEntry:
    moved = change.moved
    name, ratio = moved.baseline or ("", 1.0)
    return HistoryEntry(
        kind=change.kind.value,
        recent=change.recent,
        series=_identity(change.series.key),
        before=_point(change.before, report) if change.before else None,
        at=_point(change.at, report),
        earliest_run=change.runs[0],
        latest_run=change.runs[1],
        reason=change.reason,
        old_ms=change.old_ms,
        new_ms=change.new_ms,
        ratio=change.ratio,
        ci=change.ci,
        moved=HistoryMoved(
            copies=moved.copies,
            baseline=HistoryBaseline(provider=name, ratio=ratio) if moved.baseline else None,
            **{
                kind: [HistoryProperty(name=each.name, old=each.old, new=each.new) for each in getattr(moved, kind)]
                for kind in ("code", "machine", "stack", "settings")
            },
        ),
    )


def _series(judged: JudgedSeries, report: HistoryReport) -> HistorySeries:
    points = [_point(point, report) for point in judged.series.points]
    return HistorySeries(series=_identity(judged.series.key), noise=judged.noise, points=points)


def _identity(key: SeriesKey) -> HistoryIdentity:
    names = ("machine", "operator", "provider", "params", "dtype", "timer", "cache", "case_hash")
    return HistoryIdentity(axes=dict(key.axes), **{name: getattr(key, name) for name in names})


def _point(point: RunPoint, report: HistoryReport) -> HistoryPoint:
    return HistoryPoint(
        run=point.run,
        started_at=point.started_at,
        commit=report.timeline.runs[point.run].commit,
        status=point.status,
        ms=point.ms,
    )
