"""What `kbench judge` says of a provider that fails on or declines some of its inputs, and which missing comparisons keep
`--min-speedup` from passing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from making import row

from kbench.analysis import analyse
from kbench.errors import ExitStatus
from kbench.judging.answer import Gap, JudgeAnswer, JudgedProvider, exit_status, judge_provider
from kbench.judging.answer_text import verdict_lines
from kbench.judging.speeds import against, gaps
from kbench.protocol import OperatorInfo
from kbench.results.row import Row
from kbench.results.vocabulary import Flag, Role, Status


def checked(n: int, edge: str, status: Status = Status.CHECKED, reason: str = "") -> Row:
    return replace(row(n, None, "mine", status=status, reason=reason), edge=edge)


def declined(n: int, edge: str) -> Row:
    return checked(n, edge, Status.UNSUPPORTED, "N must be even")


def failed(n: int, edge: str, reason: str = "IndexError: no rows") -> Row:
    return checked(n, edge, Status.ERROR, reason)


def judged_rows(rows: Sequence[Row]) -> JudgedProvider:
    return judge_provider("mine", rows, lambda row: "kbench check")


def verdict_on(provider: JudgedProvider, min_speedup: float | None = None) -> list[str]:
    answer = JudgeAnswer(
        file="mine.py",
        operator="rmsnorm",
        device="a GPU",
        passed=True,
        random_shapes=2,
        seed=1,
        cases=0,
        of_cases=2,
        interrupted=False,
        noise="",
        providers=[provider],
        exit_status=ExitStatus.OK,
    )
    return [" ".join(line.split()) for line in verdict_lines(answer, provider, min_speedup)]


def lines(*checks: Row) -> list[str]:
    return verdict_on(judged_rows(checks))


PART = [
    *(checked(2, edge) for edge in ("random", "zeros")),
    *(checked(4, edge) for edge in ("random", "zeros")),
    *(declined(3, edge) for edge in ("random", "zeros", "large")),
]


def test_inputs_and_cases_that_a_provider_declined_are_not_counted_as_right() -> None:
    assert "correct yes: 4 inputs, in 2 cases" in lines(*PART)
    assert "unsupported in 1 case: N must be even" in lines(*PART)
    assert any("not timed: the file has all providers" in line for line in lines(*PART))


def test_a_provider_that_fails_on_random_inputs_or_on_many_is_not_right_except_for_them() -> None:
    for edges in (["random"], ["no rows", "one NaN", "zeros"]):
        said = lines(checked(1, "transposed"), *(failed(1, edge) for edge in edges))
        assert "correct no: 1 of 1 case failed" in said
        assert f"error at M=4096 N=1 float32 ({'; '.join(edges)}): IndexError: no rows" in said


def test_many_failures_are_counted_and_a_few_are_listed() -> None:
    assert judged_rows([failed(1, "")]).untimed == "no time: it failed or declined in each case that was timed"
    provider = judged_rows([failed(1, f"input {number}") for number in range(8)])
    assert len(provider.failures) == 5 and provider.more_failures == 3
    assert "and on 3 more inputs" in verdict_on(provider)


def test_a_timed_case_that_is_declined_in_every_session_counts_once() -> None:
    rows = [row(n, session=s, status=Status.UNSUPPORTED, reason="too long", ms=None) for n in (1, 2) for s in (0, 1)]
    assert [group.cases for group in judged_rows([*PART, *rows]).declined] == [2]


# ---- comparisons that are missing

MINE = [row(n, 1.0, "mine") for n in (256, 512)]


def other(*outcomes: float | Status, flags: tuple[str, ...] = ()) -> list[Row]:
    """The rows of a baseline in the first cases: times in ms, or statuses without one."""
    return [
        row(n, None, "other", status=outcome, reason="a reason")
        if isinstance(outcome, Status)
        else row(n, outcome, "other", flags=flags)
        for n, outcome in zip((256, 512), outcomes, strict=False)
    ]


def lacking(rows: Sequence[Row], *, named: bool) -> list[tuple[str, int, bool]]:
    missing = gaps(analyse([*MINE, *rows], None), "mine", "other", named=named)
    return [(gap.status.value, gap.cases, gap.required) for gap in missing]


@pytest.mark.parametrize("fault", [Status.WRONG, Status.OOM])
@pytest.mark.parametrize("named", [True, False])
def test_a_baseline_that_fails_in_a_case_leaves_its_speed_up_unknown(fault: Status, named: bool) -> None:
    assert lacking(other(1.0, fault), named=named) == [(fault, 1, True)]
    assert lacking(other(fault, fault), named=named) == [(fault, 2, True)]
    assert lacking(other(Status.UNSUPPORTED, fault), named=named) == [("unsupported", 1, named), (fault, 1, True)]


@pytest.mark.parametrize("declined", [Status.UNSUPPORTED, Status.CHECKED])
def test_a_baseline_may_decline_cases_and_all_if_nobody_named_it_but_not_have_suspect_times(declined: Status) -> None:
    assert lacking(other(1.0, declined), named=True) == [(declined, 1, False)]
    assert lacking(other(1.0, declined), named=False) == [(declined, 1, False)]
    assert lacking(other(declined, declined), named=True) == [(declined, 2, True)]
    assert lacking(other(declined, declined), named=False) == []
    suspect = other(0.001, 0.001, flags=(Flag.SUSPECT,))  # no such time is one
    assert lacking(suspect, named=False) == [("suspect", 2, True)]


@pytest.mark.parametrize(("status", "missing"), [(Status.OOM, []), (Status.WRONG, [("wrong", 1, True)])])
def test_a_session_that_failed_is_a_gap_only_if_its_values_are_wrong(
    status: Status, missing: list[tuple[str, int, bool]]
) -> None:
    rows = [*other(1.0, 1.0), *(replace(later, session=1) for later in other(status, 1.0))]
    assert lacking(rows, named=True) == missing


def test_a_provider_is_not_trusted_if_every_timed_case_shows_too_little() -> None:
    weak, shown = (row(n, 1.0, "mine", flags=flags) for n, flags in ((1, (Flag.WEAK_CHECK,)), (256, ())))
    assert judged_rows([weak, shown]).trusted is True  # a softmax over one column is 1
    assert judged_rows([weak, failed(2, "")]).trusted is False


def judged(rows: Sequence[Row], absent: Sequence[Gap] = ()) -> tuple[ExitStatus, str]:
    """The exit code with these rows of the baseline `other` and `--min-speedup 1`, and why it is no pass."""
    analysis = analyse([*MINE, *rows], None)
    speed = against(analysis, OperatorInfo(("M", "N"), {}, ("float32",)), "mine", "other")
    missing = [*gaps(analysis, "mine", "other", named=bool(absent)), *absent]
    provider = judge_provider(
        "mine", MINE, lambda row: "", baselines=[speed] if speed else [], not_compared=missing, min_speedup=1.0
    )
    return exit_status([provider], interrupted=False), " ".join(verdict_on(provider, 1.0))


def test_the_exit_code_is_0_only_if_every_speed_up_that_counts_is_known() -> None:
    status, said = judged(other(2.0, 2.0))
    assert status == ExitStatus.OK and "too slow" not in said and "not shown" not in said
    status, said = judged(other(2.0, Status.OOM))
    assert status == ExitStatus.NOTHING and "--min-speedup needs the comparison with other" in said


def test_a_provider_that_is_too_slow_fails_also_if_another_speed_up_is_not_known() -> None:
    absent = Gap(baseline="quack", status=Status.UNAVAILABLE, reason="not installed", cases=2, required=True)
    status, said = judged(other(0.5, 0.5), [absent])
    assert status == ExitStatus.FAILED and "too slow: 0.5x as fast as other is less than --min-speedup 1" in said
    status, said = judged(other(2.0, 2.0), [absent])
    assert status == ExitStatus.NOTHING and "needs the comparison with quack; " in said


def test_a_clear_speed_up_is_unclear_where_the_same_code_differs_too_much_and_the_line_says_so() -> None:
    baseline = [replace(timed, speedup=1.0) for timed in other(13.0, 13.0)]
    repeats = [replace(timed, provider="repeat", role=Role.CONTROL, ms=17.0) for timed in baseline]
    assert "unclear in 2 of 2 cases, because two timings of the same code may" in judged([*baseline, *repeats])[1]


def test_without_any_baseline_no_speed_up_is_known() -> None:
    status, said = judged([])
    assert status == ExitStatus.NOTHING and "not shown to be fast enough: it was not compared with any baseline" in said
