"""The answers of `kbench judge` and `kbench check`. Text, JSON and JSON Schema are made from these types.

A provider has reasons, its verdict follows from the reasons, and the exit code follows from the verdicts.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kbench.analysis import Outcome
from kbench.errors import ExitStatus
from kbench.protocol import RANDOM
from kbench.results.case import Case, Value
from kbench.results.row import Row, WrongElement
from kbench.results.vocabulary import CHECKED_REASON, EdgeInput, Flag, Status
from kbench.why.reasons import Reason

TIMING = "timing"
"""The input of a failure that happened while a provider was timed."""

DISTRUSTED = (Flag.SUSPECT, Flag.SAME_OPS)
"""The flags of a provider that cannot be trusted: it is faster than it can be, or no kernel of its own."""

FAILURES_LISTED = 5
"""How many failures of a provider are listed. The others are counted."""

HINTS = 3
"""How many failed inputs have a hint."""

ONLY_RANDOM_SHAPES = (
    "It is right at the sizes of the config that were checked and wrong at others: mask the end of every axis, assume no "
    "size that the config names, and keep no results between calls."
)

UNCLEAR = "In some cases the measurements do not tell which is faster: --set sessions=3 measures in two more processes."


class Verdict(enum.StrEnum):
    """What a judgement says of a provider."""

    PASS = "pass"
    BETTER = "better"
    NOT_BETTER = "not-better"
    WRONG = "wrong"
    NOT_TRUSTED = "not-trusted"
    TOO_SLOW = "too-slow"
    UNKNOWN = "unknown"


class Shortfall(enum.StrEnum):
    """What a provider that is right and trusted still lacks."""

    TOO_SLOW = "too-slow"
    NOT_BETTER = "not-better"
    SPEED_UNKNOWN = "speed-unknown"
    NOT_CHECKED = "not-checked"


ReasonCode = Status | Flag | Shortfall


class _Model(BaseModel):
    """No number is NaN or infinite, and no key is one that the schema does not have."""

    model_config = ConfigDict(
        frozen=True,
        allow_inf_nan=False,
        extra="forbid",
        use_attribute_docstrings=True,
        field_title_generator=lambda name, _: name,
        model_title_generator=lambda model: model.__name__,
    )


class Failure(_Model):
    """How the provider failed on an input, in the first case in which it did."""

    status: Status
    input: str
    """An edge input, `random`, or `timing`, which stands for the calls that were timed."""
    case: str
    axes: dict[str, Value]
    """The sizes, scalars, choices and mode of the case."""
    dtype: str
    shapes: str
    """The inputs that have other shapes than in the case. Empty if there is none."""
    reason: str
    element: WrongElement | None
    """The first wrong element. Null if the values are not what is wrong."""
    cases: int
    """The number of cases with this failure."""
    reproduce: str
    """The shell command that makes the same inputs again and checks this provider on them."""


class Declined(_Model):
    """Cases in which the provider did not take part."""

    status: Status
    reason: str
    cases: int


class CheckedProvider(_Model):
    """Whether a provider is right."""

    provider: str
    verdict: Verdict
    reasons: list[ReasonCode]
    """Why the verdict is no pass: statuses, flags, and what is lacking. Empty for a pass."""
    correct: bool | None
    """Whether no case failed. Null if kbench could not check it in any case, or was interrupted before the last one."""
    deterministic: bool | None
    """Whether two calls on an input always gave the same bits. Inputs on which it is wrong do not count."""
    checked_inputs: int
    """The number of edge and random inputs that it did not decline, over all cases."""
    tried_cases: int
    """The number of cases in which it did not decline everything: those checked, and those timed."""
    left_out_cases: int
    """The number of cases that were not checked: kbench was interrupted, or all providers had failed in earlier ones."""
    failed_cases: int
    max_ulp: float | None
    """The largest error in units in the last place, of right and of wrong outputs."""
    failures: list[Failure]
    """The first failures, each on another input."""
    more_failures: int
    """The number of further inputs on which it failed."""
    declined: list[Declined]
    hints: list[str]
    """What its author can look at next."""


Reproduce = Callable[[Row], str]
"""The shell command that measures a row again."""


def check_provider(
    provider: str, rows: Sequence[Row], reproduce: Reproduce, *, left_out_cases: int = 0
) -> CheckedProvider:
    """Whether a provider is right, from its rows of inputs and of timed cases."""
    failed: dict[tuple[str, Status], list[Row]] = {}
    for row in rows:
        if row.status.failed:
            failed.setdefault((row.edge or TIMING, row.status), []).append(row)
    tried = {row.case for row in rows if not row.status.declined}
    failed_cases = {row.case for group in failed.values() for row in group}
    same_bits = [row.deterministic for row in rows if row.deterministic is not None]
    reasons: list[ReasonCode] = list(dict.fromkeys(status for _, status in failed))
    complete = bool(tried) and not left_out_cases
    if not failed and not complete:
        reasons = [Shortfall.NOT_CHECKED]
    return CheckedProvider(
        provider=provider,
        verdict=verdict_of(reasons),
        reasons=reasons,
        correct=not failed if failed or complete else None,
        deterministic=all(same_bits) if same_bits else None,
        checked_inputs=sum(bool(row.edge) and not row.status.declined for row in rows),
        tried_cases=len(tried),
        left_out_cases=left_out_cases,
        failed_cases=len(failed_cases),
        max_ulp=max((row.max_ulp for row in rows if row.max_ulp is not None), default=None),
        failures=[_failure(name, group, reproduce) for (name, _), group in list(failed.items())[:FAILURES_LISTED]],
        more_failures=max(0, len(failed) - FAILURES_LISTED),
        declined=_declined([row for row in rows if not row.edge]) or _declined(rows),
        hints=_hints_of_inputs([name for name, _ in failed]),
    )


def _failure(name: str, rows: Sequence[Row], reproduce: Reproduce) -> Failure:
    row = rows[0]
    return Failure(
        status=row.status,
        input=name,
        case=row.case.label,
        axes=dict(row.case.axes),
        dtype=row.case.dtype,
        shapes=row.shapes,
        reason=row.reason,
        element=row.element,
        cases=len({failed.case for failed in rows}),
        reproduce=reproduce(row),
    )


def _declined(rows: Sequence[Row]) -> list[Declined]:
    """The number of cases in which it declined at least one input, for each status and reason."""
    declined = {(row.status, row.reason, row.case.label) for row in rows if row.status.declined}
    counted = Counter((status, reason) for status, reason, _ in sorted(declined))
    return [Declined(status=status, reason=reason, cases=cases) for (status, reason), cases in counted.items()]


def _hints_of_inputs(names: Sequence[str]) -> list[str]:
    """What the inputs are that it failed on, unless it fails on all inputs."""
    if RANDOM in names:
        return []
    edges = [EdgeInput(name) for name in names if name in list(EdgeInput)]
    return [f"{edge.value}: {edge.explanation}" for edge in edges[:HINTS]]


class Doubt(_Model):
    """Why the provider is not trusted, with the first case."""

    flag: Flag
    case: str
    reason: str
    """Empty if the flag needs none."""
    cases: int


class Speed(_Model):
    """How many times as fast as a baseline it is."""

    speedup: float
    """The time of the baseline divided by that of the provider; of several cases the geometric mean."""
    interval: tuple[float, float]
    """The uncertainty of the speed-up."""


class CaseSpeed(Speed):
    """The provider against a baseline in one case."""

    case: str
    outcome: Outcome
    """tie: equally fast. unclear: the measurements do not tell."""


class GroupSpeed(Speed):
    """The provider against a baseline in the cases of one dtype, scalar, choice or mode, or with tensors of about one size."""

    group: str
    cases: int


class BaselineSpeed(Speed):
    """The provider against one baseline, over all cases that both were timed in."""

    baseline: str
    outcomes: dict[Outcome, int]
    """The number of cases with each outcome."""
    worst: CaseSpeed
    best: CaseSpeed
    groups: list[GroupSpeed]
    """Each case is in one group of each kind. Kinds with only one group, and with as many as cases, are left out."""


class Gap(_Model):
    """A baseline that the provider was not compared with in some of its timed cases."""

    baseline: str
    status: Status | Flag
    """Why the baseline has no time there. suspect: its time cannot be believed."""
    reason: str
    cases: int
    """The number of these cases."""
    required: bool
    """Whether --min-speedup cannot pass without this comparison."""


class Profile(_Model):
    """What a call does in the case in which the provider is slowest beside a baseline. Numbers that are not known are null."""

    case: str
    ms: float
    copy_fraction: float | None
    """Its GB/s divided by those of a copy of the same bytes."""
    launches: int | None
    """The number of kernels that a call launches."""
    registers: int | None
    """The largest number of registers of a thread."""
    spilled_bytes: int | None
    """The largest local memory of a thread: spilled registers, and arrays that are not in registers."""
    causes: list[Reason]
    """The reasons of `kbench why` for its time, the most important one first. `weight` is about the share of the time."""


class Contest(Speed):
    """The candidate against the champion of a ledger. The speed-up is the mean of the sessions of the last file."""

    champion: str
    candidate_number: int
    """The number of the candidate in the ledger, from 1."""
    better: bool
    """Whether the confirmation shows that the candidate is faster."""
    sessions: int
    """The fresh processes that measured both: of the screen and of the confirmation."""
    alpha: float | None
    """The highest probability that the confirmation promotes a candidate that is not faster: a part of the 5 % of the whole
    ledger. Null if the screen stopped the candidate, which spends nothing."""
    evidence: float | None
    """The candidate is better if this reaches 1 / alpha."""
    files: list[str]
    """The results files of the screen and of the confirmation."""


class JudgedProvider(CheckedProvider):
    """The verdict on one provider."""

    trusted: bool | None
    """False if a sign of tampering was found, if it runs the same torch operators as the baseline, or if its checks show little
    in every case (weak-check). Null if it has no time."""
    timed_cases: int
    """The number of cases of the config in which it has a time."""
    doubts: list[Doubt]
    flags: dict[Flag, int]
    """The flags of its rows, with the number of rows."""
    baselines: list[BaselineSpeed]
    """The fastest baseline first."""
    not_compared: list[Gap]
    """What the comparisons with baselines lack, and why."""
    profile: Profile | None
    contest: Contest | None
    untimed: str
    """Why it has no time; empty if it has one."""


def judge_provider(
    provider: str,
    rows: Sequence[Row],
    reproduce: Reproduce,
    *,
    config_cases: Collection[Case] = (),
    baselines: Sequence[BaselineSpeed] = (),
    not_compared: Sequence[Gap] = (),
    profile: Profile | None = None,
    contest: Contest | None = None,
    min_speedup: float | None = None,
    left_out_cases: int = 0,
) -> JudgedProvider:
    """The verdict on a provider, from its rows of inputs and of timed cases: none of these if a check failed. `config_cases`
    are those that its author may know."""
    checked = check_provider(provider, rows, reproduce, left_out_cases=left_out_cases)
    timed = [row for row in rows if not row.edge]
    doubts = _doubts(timed)
    reasons = [*checked.reasons, *(doubt.flag for doubt in doubts)]
    distrusted = bool(doubts) or Status.TAMPERED in reasons
    baselines = sorted(baselines, key=lambda baseline: baseline.speedup)
    if min_speedup is not None and verdict_of(reasons) in (Verdict.PASS, Verdict.UNKNOWN):
        if any(baseline.speedup < min_speedup for baseline in baselines):
            reasons.append(Shortfall.TOO_SLOW)
        elif not baselines or any(gap.required for gap in not_compared):
            reasons.append(Shortfall.SPEED_UNKNOWN)
    if contest and not contest.better and verdict_of(reasons) is Verdict.PASS:
        reasons.append(Shortfall.NOT_BETTER)
    verdict = verdict_of(reasons)
    if contest and verdict is Verdict.PASS:
        verdict = Verdict.BETTER
    hints = [*checked.hints, *(f"kbench explain {doubt.flag} says what this flag means." for doubt in doubts)]
    if config_cases and checked.failures and not any(row.status.failed and row.case in config_cases for row in rows):
        hints.append(ONLY_RANDOM_SHAPES)
    if contest is None and any(Outcome.UNCLEAR in baseline.outcomes for baseline in baselines):
        hints.append(UNCLEAR)
    timed_cases = {row.case for row in timed if row.ms is not None}
    fields = dict(checked) | {"verdict": verdict, "reasons": reasons, "hints": hints}
    return JudgedProvider(
        **fields,
        trusted=not distrusted if timed_cases or distrusted else None,
        timed_cases=len(timed_cases),
        doubts=doubts,
        flags=dict(Counter(Flag(flag) for row in timed for flag in row.flags)),
        baselines=baselines,
        not_compared=list(not_compared),
        profile=profile,
        contest=contest,
        untimed=_untimed(timed, checked),
    )


def _doubts(rows: Sequence[Row]) -> list[Doubt]:
    # the output may be constant at some size: a softmax over one column is 1
    weak = all(Flag.WEAK_CHECK in row.flags for row in rows if row.ms is not None)
    flagged: dict[Flag, list[Row]] = {}
    for row in rows:
        for flag in (*DISTRUSTED, *([Flag.WEAK_CHECK] if weak else [])):
            if flag in row.flags:
                flagged.setdefault(flag, []).append(row)
    return [
        Doubt(flag=flag, case=group[0].case.label, reason=group[0].reason, cases=len({row.case for row in group}))
        for flag, group in flagged.items()
    ]


def _untimed(timed: Sequence[Row], checked: CheckedProvider) -> str:
    if any(row.ms is not None for row in timed):
        return ""
    if timed:
        checked_only = all(row.status is Status.CHECKED for row in timed)
        return CHECKED_REASON if checked_only else "no time: it failed or declined in each case that was timed"
    if checked.failures:
        return "not timed: it is not right"
    if checked.left_out_cases:
        return "not timed: not all cases were checked"
    no_baseline = "not timed: the file has all providers of the config; move a baseline into another plug-in"
    return no_baseline if checked.tried_cases else "not timed: it took part in no case"


def verdict_of(reasons: Sequence[ReasonCode]) -> Verdict:
    """The verdict on a provider with these reasons: the worst that one of them means."""
    if any(reason is Status.TAMPERED or isinstance(reason, Flag) for reason in reasons):
        return Verdict.NOT_TRUSTED
    if any(isinstance(reason, Status) for reason in reasons):
        return Verdict.WRONG
    if Shortfall.TOO_SLOW in reasons:
        return Verdict.TOO_SLOW
    if Shortfall.NOT_BETTER in reasons:
        return Verdict.NOT_BETTER
    return Verdict.UNKNOWN if reasons else Verdict.PASS


def exit_status(providers: Sequence[CheckedProvider], *, interrupted: bool) -> ExitStatus:
    if interrupted:
        return ExitStatus.INTERRUPTED
    verdicts = {provider.verdict for provider in providers}
    if not verdicts <= {Verdict.PASS, Verdict.BETTER, Verdict.UNKNOWN}:
        return ExitStatus.FAILED
    unknown = any(Shortfall.SPEED_UNKNOWN in provider.reasons for provider in providers)
    return ExitStatus.NOTHING if unknown or verdicts <= {Verdict.UNKNOWN} else ExitStatus.OK


class _Answer(_Model):
    version: str = Field(alias="schema")
    """The version of this format. It changes if programs that read it have to change."""
    operator: str
    device: str
    seed: int
    """The seed of the random shapes and of all inputs. `--seed` of `kbench judge` repeats them, and so does `--set seed=`."""
    passed: bool
    """Whether the exit code is 0."""
    interrupted: bool
    """Whether Ctrl-C ended the command. Then the answer is about what was done before."""
    exit_status: ExitStatus = Field(exclude=True)


class CheckAnswer(_Answer):
    """What `kbench check --json` prints."""

    version: Literal["kbench.check/1"] = Field(default="kbench.check/1", alias="schema")
    providers: list[CheckedProvider]


class JudgeAnswer(_Answer):
    """What `kbench judge --json` prints."""

    version: Literal["kbench.judge/2"] = Field(default="kbench.judge/2", alias="schema")
    file: str
    random_shapes: int
    cases: int
    """The number of cases of the config that were timed."""
    of_cases: int
    """The number of cases that the config has."""
    noise: str
    """A sentence on how far two timings of the same code differed. Empty if none was timed."""
    providers: list[JudgedProvider]


def _schema(answer: type[_Answer], title: str) -> dict[str, Any]:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return head | answer.model_json_schema(mode="serialization") | {"title": title}


judge_schema = partial(_schema, JudgeAnswer, "kbench judgement")
check_schema = partial(_schema, CheckAnswer, "kbench check")
"""The JSON Schemas (draft 2020-12) of `kbench judge --json` and `kbench check --json`."""
