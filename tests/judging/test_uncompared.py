"""Which missing comparisons keep `kbench judge --min-speedup` from passing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from making import row

from kbench.analysis import Outcome, analyse
from kbench.commands.judge import judge
from kbench.errors import ExitStatus
from kbench.judging.judge import FileJudgement, _speeds
from kbench.judging.judgement import CaseSpeed, CheckedInput, ProviderJudgement, mean_speed
from kbench.judging.uncompared import Uncompared, absent, uncompared
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


def gaps(rows: Sequence[Row], *, named: bool) -> list[tuple[str, int, bool]]:
    found = uncompared(analyse([*MINE, *rows], None), "mine", "other", named=named)
    return [(each.status.value, each.cases, each.required) for each in found]


@pytest.mark.parametrize("fault", [Status.WRONG, Status.ERROR, Status.OOM, Status.TIMEOUT, Status.CRASHED])
@pytest.mark.parametrize("named", [True, False])
def test_a_baseline_that_fails_in_a_case_leaves_its_speed_up_unknown(fault: Status, named: bool) -> None:
    assert gaps(other(1.0, fault), named=named) == [(fault, 1, True)]
    assert gaps(other(fault, fault), named=named) == [(fault, 2, True)]
    assert gaps(other(Status.UNSUPPORTED, fault), named=named) == [("unsupported", 1, named), (fault, 1, True)]


@pytest.mark.parametrize("declined", [Status.UNSUPPORTED, Status.UNAVAILABLE, Status.CHECKED])
def test_a_baseline_may_decline_cases_and_one_that_nobody_named_may_decline_all(declined: Status) -> None:
    assert gaps(other(1.0, declined), named=True) == [(declined, 1, False)]
    assert gaps(other(1.0, declined), named=False) == [(declined, 1, False)]
    assert gaps(other(declined, declined), named=True) == [(declined, 2, True)]
    assert gaps(other(declined, declined), named=False) == []


def test_a_suspect_time_of_a_baseline_is_no_time() -> None:
    assert gaps(other(0.001, 0.001, flags=(Flag.SUSPECT,)), named=False) == [("suspect", 2, True)]


def test_a_session_that_failed_is_no_gap_if_another_has_a_time() -> None:
    rows = [*other(1.0, 1.0), *(replace(each, session=1) for each in other(Status.OOM, 1.0))]
    assert gaps(rows, named=True) == []


def test_more_cases_of_the_same_sessions_do_not_narrow_the_interval_of_their_mean() -> None:
    case = CaseSpeed("softmax N=256", 2.0, (1.6, 2.5), Outcome.FASTER)
    for count in (1, 4, 100):
        found = mean_speed("other", [case] * count)
        assert found.geomean == pytest.approx(2.0) and found.interval == pytest.approx((1.6, 2.5))


def verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: Sequence[Row], lacking: Sequence[Uncompared] = ()
) -> ExitStatus:
    """The exit code of a judgement with these rows of the baseline `other`, and with `--min-speedup 1`."""
    found = analyse([*MINE, *rows], None)
    speeds = _speeds(found, "mine", "other")
    check = CheckedInput("softmax N=256", "random", False, Status.CHECKED, "", True)
    made = ProviderJudgement(
        "mine",
        [check],
        MINE,
        [mean_speed("other", speeds)] if speeds else [],
        [*uncompared(found, "mine", "other", named=bool(lacking)), *lacking],
    )
    judged = FileJudgement(tmp_path / "mine.py", "softmax", "a GPU", [made], ["other"], 0, 2)
    (tmp_path / "mine.py").touch()
    monkeypatch.setattr("kbench.judging.judge.judge", lambda *arguments: judged)
    return judge(tmp_path / "mine.py", "softmax", min_speedup=1.0)


def test_the_exit_code_is_0_only_if_every_speed_up_that_counts_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdict(monkeypatch, tmp_path, other(2.0, 2.0)) == ExitStatus.OK
    assert verdict(monkeypatch, tmp_path, other(2.0, Status.UNSUPPORTED)) == ExitStatus.OK
    assert "not compared with other in 1 case: unsupported (a reason)" in capsys.readouterr().out
    assert verdict(monkeypatch, tmp_path, other(2.0, Status.OOM)) == ExitStatus.NOTHING
    said = capsys.readouterr().out
    assert "not compared with other in 1 case: oom (a reason)" in said
    assert "not shown to be fast enough: --min-speedup needs the comparison with other" in said


def test_a_provider_that_is_too_slow_fails_also_if_another_speed_up_is_not_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = absent({"quack": "Python package 'quack' is not installed"}, 2)
    assert verdict(monkeypatch, tmp_path, other(0.5, 0.5), lacking) == ExitStatus.FAILED
    assert "too slow: 0.500x is less than --min-speedup 1" in capsys.readouterr().out
    assert verdict(monkeypatch, tmp_path, other(2.0, 2.0), lacking) == ExitStatus.NOTHING
    assert "needs the comparison with quack; " in capsys.readouterr().out


def test_without_any_baseline_no_speed_up_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdict(monkeypatch, tmp_path, []) == ExitStatus.NOTHING
    assert "not shown to be fast enough: it was not compared with any baseline" in capsys.readouterr().out
