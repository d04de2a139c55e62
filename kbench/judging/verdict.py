"""What kbench has found out about the providers of a file. These are the types of `kbench judge --json`, and `schema()` is
their JSON Schema, which `kbench schema judge` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kbench.analysis import Outcome
from kbench.errors import ExitStatus
from kbench.results.row import Row
from kbench.results.vocabulary import CHECKED_REASON, Flag, Status

VERSION: Literal["kbench.judge/1"] = "kbench.judge/1"

TIMING = "timing"
"""Stands for an input where a provider failed when it was measured."""

DISTRUSTED = (Flag.SUSPECT, Flag.SAME_OPS)
"""The flags of a provider that cannot be trusted: it is faster than it can be, or no kernel of its own."""

Uncertainty = tuple[float, float]


class _Model(BaseModel):
    """No number is NaN or infinite, and no key is one that the schema does not have."""

    model_config = ConfigDict(
        frozen=True,
        allow_inf_nan=False,
        extra="forbid",
        field_title_generator=lambda name, _: name,
        model_title_generator=lambda model: model.__name__,
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
        description="False if a sign of tampering was found, if it runs the same torch operators as the baseline, or if its "
        "checks show little in every case (weak-check). Null if it was not timed."
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
    tried_cases: int = Field(exclude=True, description="The cases in which it did not decline everything.")
    untimed: str = Field(exclude=True, description="Why it has no time; empty if it has one.")

    def slower_than(self, speedup: float) -> bool:
        """Whether it is known to be less than so many times as fast as a baseline."""
        return any(baseline.speedup < speedup for baseline in self.baselines)

    @property
    def speed_known(self) -> bool:
        """Whether every speed-up is known that `--min-speedup` asks for: see `baselines.py`."""
        return bool(self.baselines) and not any(gap.required for gap in self.not_compared)


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
    seed: int = Field(description="The seed of the random shapes and of all inputs. `--seed` repeats them.")
    cases: int = Field(description="The number of cases of the config that were measured.")
    interrupted: bool = Field(description="Whether Ctrl-C ended the timing.")
    noise: str = Field(
        description="A sentence on how far two timings of the same code differed. Empty if none was timed."
    )
    providers: list[JudgedProvider]
    exit_status: ExitStatus = Field(exclude=True)


def schema() -> dict[str, Any]:
    """The document as JSON Schema (draft 2020-12)."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | JudgedFile.model_json_schema(mode="serialization") | {"title": "kbench judgement"}


def judge_provider(
    provider: str,
    checks: Sequence[Row],
    rows: Sequence[Row] = (),
    baselines: Sequence[JudgedBaseline] = (),
    not_compared: Sequence[JudgedGap] = (),
) -> JudgedProvider:
    """The verdict on a provider.

    checks  its rows of edge inputs and random shapes
    rows    its rows of the timed cases; none if a check failed
    """
    results = [*checks, *rows]
    tried = {row.case for row in results if not row.status.declined}
    failures = _failures(results)
    # the output may be constant at some size: a softmax over one column is 1
    never_shown = all(Flag.WEAK_CHECK in row.flags for row in rows if row.ms is not None)
    doubts = [
        JudgedDoubt(flag=Flag(flag), case=row.case.label, reason=row.reason)
        for row in rows
        for flag in row.flags
        if flag in DISTRUSTED or (never_shown and flag == Flag.WEAK_CHECK)
    ]
    distrusted = bool(doubts) or any(failure.status is Status.TAMPERED for failure in failures)
    same_bits = [row.deterministic for row in results if row.deterministic is not None]
    return JudgedProvider(
        provider=provider,
        correct=not failures if tried else None,
        trusted=not distrusted if rows or distrusted else None,
        deterministic=all(same_bits) if same_bits else None,
        checked_inputs=sum(not row.status.declined for row in checks),
        timed_cases=len({row.case for row in rows if row.ms is not None}),
        failures=failures,
        doubts=doubts,
        declined=_declined(rows) or _declined(checks),
        flags=dict(Counter(Flag(flag) for row in rows for flag in row.flags)),
        baselines=sorted(baselines, key=lambda baseline: baseline.speedup),
        not_compared=list(not_compared),
        tried_cases=len(tried),
        untimed=_untimed(rows, failed=bool(failures), tried=bool(tried)),
    )


def _failures(rows: Sequence[Row]) -> list[JudgedFailure]:
    """What went wrong, one entry for each status and case."""
    failed: dict[tuple[str, Status], list[Row]] = {}
    for row in rows:
        if row.status.failed:
            failed.setdefault((row.case.label, row.status), []).append(row)
    return [
        JudgedFailure(
            status=status,
            case=case,
            inputs=list(dict.fromkeys(row.edge or TIMING for row in group)),
            reason=group[0].reason,
        )
        for (case, status), group in failed.items()
    ]


def _declined(rows: Sequence[Row]) -> list[JudgedDeclined]:
    """The number of cases in which it declined at least one input, for each status and reason."""
    declined = {(row.status, row.reason, row.case.label) for row in rows if row.status.declined}
    counted = Counter((status, reason) for status, reason, _ in sorted(declined))
    return [JudgedDeclined(status=status, reason=reason, cases=cases) for (status, reason), cases in counted.items()]


def _untimed(rows: Sequence[Row], *, failed: bool, tried: bool) -> str:
    if rows:
        return CHECKED_REASON if all(row.status is Status.CHECKED for row in rows) else ""
    if failed:
        return "not timed: it is not right"
    return "not timed: there is no baseline" if tried else "not timed: it took part in no case"


def exit_status(providers: Sequence[JudgedProvider], min_speedup: float | None, *, interrupted: bool) -> ExitStatus:
    """The exit code of a judgement."""
    if interrupted:
        return ExitStatus.INTERRUPTED
    if any(provider.failures or provider.doubts for provider in providers):
        return ExitStatus.FAILED
    if all(provider.correct is None for provider in providers):
        return ExitStatus.NOTHING
    if min_speedup is None:
        return ExitStatus.OK
    if any(provider.slower_than(min_speedup) for provider in providers):
        return ExitStatus.FAILED
    return ExitStatus.OK if all(provider.speed_known for provider in providers) else ExitStatus.NOTHING
