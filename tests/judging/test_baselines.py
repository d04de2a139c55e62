"""Which missing comparisons keep `kbench judge --min-speedup` from passing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from making import row

from kbench.analysis import analyse
from kbench.errors import ExitStatus
from kbench.judging.baselines import against, gaps
from kbench.judging.verdict import JudgedBaseline, JudgedGap, JudgedProvider, exit_status, judge_provider
from kbench.judging.verdict_text import _gate
from kbench.results.row import Row
from kbench.results.vocabulary import Flag, Status

MINE = [row(n, 1.0, "mine") for n in (256, 512)]


def other(*found: float | Status, flags: tuple[str, ...] = ()) -> list[Row]:
    """The rows of a baseline in the first cases: times in ms, or statuses without one."""
    return [
        row(n, None, "other", status=each, reason="a reason")
        if isinstance(each, Status)
        else row(n, each, "other", flags=flags)
        for n, each in zip((256, 512), found, strict=False)
    ]


def lacking(rows: Sequence[Row], *, named: bool) -> list[tuple[str, int, bool]]:
    found = gaps(analyse([*MINE, *rows], None), "mine", "other", named=named)
    return [(each.status.value, each.cases, each.required) for each in found]


@pytest.mark.parametrize("fault", [Status.WRONG, Status.OOM])
@pytest.mark.parametrize("named", [True, False])
def test_a_baseline_that_fails_in_a_case_leaves_its_speed_up_unknown(fault: Status, named: bool) -> None:
    assert lacking(other(1.0, fault), named=named) == [(fault, 1, True)]
    assert lacking(other(fault, fault), named=named) == [(fault, 2, True)]
    assert lacking(other(Status.UNSUPPORTED, fault), named=named) == [("unsupported", 1, named), (fault, 1, True)]


@pytest.mark.parametrize("declined", [Status.UNSUPPORTED, Status.CHECKED])
def test_a_baseline_may_decline_cases_and_one_that_nobody_named_may_decline_all(declined: Status) -> None:
    assert lacking(other(1.0, declined), named=True) == [(declined, 1, False)]
    assert lacking(other(1.0, declined), named=False) == [(declined, 1, False)]
    assert lacking(other(declined, declined), named=True) == [(declined, 2, True)]
    assert lacking(other(declined, declined), named=False) == []


def test_a_suspect_time_of_a_baseline_is_no_time() -> None:
    assert lacking(other(0.001, 0.001, flags=(Flag.SUSPECT,)), named=False) == [("suspect", 2, True)]


def test_a_session_that_failed_is_no_gap_if_another_has_a_time() -> None:
    rows = [*other(1.0, 1.0), *(replace(each, session=1) for each in other(Status.OOM, 1.0))]
    assert lacking(rows, named=True) == []


def judged(rows: Sequence[Row], absent: Sequence[JudgedGap] = ()) -> tuple[ExitStatus, str]:
    """The exit code with these rows of the baseline `other` and `--min-speedup 1`, and why it is no pass."""
    analysis = analyse([*MINE, *rows], None)
    baselines: list[JudgedBaseline] = [each for each in [against(analysis, "mine", "other")] if each]
    own = [*gaps(analysis, "mine", "other", named=bool(absent)), *absent]
    provider: JudgedProvider = judge_provider("mine", [], MINE, baselines, own)
    return exit_status([provider], 1.0, interrupted=False), " ".join(_gate(provider, 1.0))


def test_the_exit_code_is_0_only_if_every_speed_up_that_counts_is_known() -> None:
    assert judged(other(2.0, 2.0)) == (ExitStatus.OK, "")
    status, said = judged(other(2.0, Status.OOM))
    assert status == ExitStatus.NOTHING and "--min-speedup needs the comparison with other" in said


def test_a_provider_that_is_too_slow_fails_also_if_another_speed_up_is_not_known() -> None:
    absent = JudgedGap(baseline="quack", status=Status.UNAVAILABLE, reason="not installed", cases=2, required=True)
    status, said = judged(other(0.5, 0.5), [absent])
    assert status == ExitStatus.FAILED and "too slow: 0.5x is less than --min-speedup 1" in said
    status, said = judged(other(2.0, 2.0), [absent])
    assert status == ExitStatus.NOTHING and "needs the comparison with quack; " in said


def test_without_any_baseline_no_speed_up_is_known() -> None:
    status, said = judged([])
    assert status == ExitStatus.NOTHING and "not shown to be fast enough: it was not compared with any baseline" in said
