"""A judgement as JSON, for programs. Its schema is `schema()`; `kbench schema judge` prints it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kbench.analysis import Outcome
from kbench.judging.judge import FileJudgement
from kbench.judging.judgement import Against, CaseSpeed, ProviderJudgement
from kbench.judging.uncompared import Uncompared
from kbench.results.vocabulary import Flag, Status
from kbench.text.printable import printable, safe_reason

VERSION: Literal["kbench.judge/1"] = "kbench.judge/1"

Uncertainty = tuple[float, float]


class _Model(BaseModel):
    """No number is NaN or infinite, and no key is one that the schema does not have."""

    model_config = ConfigDict(
        allow_inf_nan=False,
        extra="forbid",
        field_title_generator=lambda name, _: name,
        model_title_generator=lambda model: model.__name__.removeprefix("FileJudgement"),
    )


class JudgedFailure(_Model):
    """What went wrong in one case."""

    status: Status
    case: str
    inputs: list[str] = Field(
        description="The inputs on which it failed. `timing` stands for the calls that were timed."
    )
    reason: str = Field(description="The reason on the first of these inputs.")


class JudgedDoubt(_Model):
    """Why the provider is not trusted in one case."""

    flag: Flag
    case: str
    reason: str = Field(description="Empty if the flag needs none.")


class JudgedDeclined(_Model):
    """Cases in which the provider did not take part."""

    status: Status
    reason: str
    cases: int


class JudgedCase(_Model):
    """The provider against a baseline in one case."""

    case: str
    speedup: float = Field(description="The time of the baseline divided by that of the provider.")
    interval: Uncertainty = Field(
        description="The uncertainty of the speed-up, from the rounds and the noise of the case."
    )
    outcome: Outcome = Field(description="tie: equally fast. unclear: the measurements do not tell.")


class JudgedBaseline(_Model):
    """The provider against one baseline."""

    baseline: str
    speedup: float = Field(description="The geometric mean of the speed-ups of all cases.")
    interval: Uncertainty = Field(description="The uncertainty of the geometric mean.")
    cases: list[JudgedCase]


class JudgedGap(_Model):
    """A baseline that the provider was not compared with in some of its timed cases."""

    baseline: str
    status: Status | Flag = Field(
        description="Why the baseline has no time there. suspect: its time cannot be believed."
    )
    reason: str
    cases: int = Field(description="The number of these cases. 0 if the provider was not timed.")
    required: bool = Field(description="Whether --min-speedup cannot pass without this comparison.")


class JudgedProvider(_Model):
    """The verdict on one provider."""

    provider: str
    correct: bool | None = Field(description="Whether no case failed. Null if kbench could not check it in any case.")
    trusted: bool | None = Field(
        description="False if a sign of tampering was found, or if it runs the same torch operators as the baseline. Null if "
        "it was not timed."
    )
    deterministic: bool | None = Field(description="Whether two calls on an input always gave the same bits.")
    checked_inputs: int = Field(
        description="The number of edge and random inputs that it did not decline, over all cases."
    )
    timed_cases: int = Field(description="The number of cases of the config in which it has a time.")
    failures: list[JudgedFailure]
    doubts: list[JudgedDoubt] = Field(description="The timed cases in which it is not trusted.")
    declined: list[JudgedDeclined]
    flags: dict[Flag, int] = Field(description="The flags of its rows, with the number of rows.")
    baselines: list[JudgedBaseline] = Field(description="The fastest baseline first.")
    not_compared: list[JudgedGap] = Field(description="What the comparisons with baselines lack, and why.")


class JudgedFile(_Model):
    """What `kbench judge --json` prints."""

    version: Literal["kbench.judge/1"] = Field(
        alias="schema", description="The version of this format. It changes if programs that read it have to change."
    )
    file: str
    operator: str
    device: str
    passed: bool = Field(description="Whether the exit code is 0.")
    random_shapes: int
    cases: int = Field(description="The number of cases of the config that were measured.")
    interrupted: bool = Field(description="Whether Ctrl-C ended the timing.")
    noise: str = Field(
        description="A sentence on how far two timings of the same code differed. Empty if none was timed."
    )
    providers: list[JudgedProvider]


def text(judged: FileJudgement, *, passed: bool) -> str:
    document = JudgedFile(
        schema=VERSION,
        file=printable(str(judged.file)),
        operator=judged.operator,
        device=printable(judged.device),
        passed=passed,
        random_shapes=judged.shapes,
        cases=judged.timed,
        interrupted=judged.interrupted,
        noise=judged.noise,
        providers=[_provider(each) for each in judged.judgements],
    )
    return document.model_dump_json(by_alias=True, indent=1)


def schema() -> dict[str, Any]:
    """The document as JSON Schema (draft 2020-12)."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | JudgedFile.model_json_schema(mode="serialization") | {"title": "kbench judgement"}


def _provider(found: ProviderJudgement) -> JudgedProvider:
    return JudgedProvider(
        provider=found.provider,
        correct=found.right if found.tried else None,
        trusted=not found.distrusted if found.rows or found.distrusted else None,
        deterministic=found.deterministic,
        checked_inputs=len(found.accepted),
        timed_cases=found.timed,
        failures=[
            JudgedFailure(
                status=each.status,
                case=printable(each.case),
                inputs=[printable(name) for name in each.inputs],
                reason=safe_reason(each.reason),
            )
            for each in found.failures
        ],
        doubts=[
            JudgedDoubt(flag=each.flag, case=printable(each.case), reason=safe_reason(each.reason))
            for each in found.doubts
        ],
        declined=[
            JudgedDeclined(status=status, reason=safe_reason(reason), cases=count)
            for (status, reason), count in found.declined.items()
        ],
        flags=dict(found.flags),
        baselines=[_baseline(each) for each in found.against],
        not_compared=[_gap(each) for each in found.uncompared],
    )


def _gap(gap: Uncompared) -> JudgedGap:
    return JudgedGap(
        baseline=gap.baseline,
        status=gap.status,
        reason=safe_reason(gap.reason),
        cases=gap.cases,
        required=gap.required,
    )


def _baseline(against: Against) -> JudgedBaseline:
    return JudgedBaseline(
        baseline=against.baseline,
        speedup=against.geomean,
        interval=against.interval,
        cases=[_case(each) for each in against.cases],
    )


def _case(found: CaseSpeed) -> JudgedCase:
    return JudgedCase(case=printable(found.case), speedup=found.speedup, interval=found.interval, outcome=found.outcome)
