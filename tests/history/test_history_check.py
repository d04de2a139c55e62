"""`kbench history check`: a change is found, named with what moved, and no drift of the machine is taken for one."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
from history.nights import Night, history, results

from kbench.comparison.verdict import Verdict
from kbench.history.judge_history import judge_history
from kbench.history.options import HistoryOptions
from kbench.history.presentation.report_text import report_lines
from kbench.history.report import HistoryChange, HistoryReport
from kbench.history.storage.adding import add_results

STEP = 12


def judged(folder: Path, **options: Any) -> HistoryReport:
    return judge_history(folder, HistoryOptions(**options))


def told(report: HistoryReport) -> str:
    return "\n".join(report_lines(report, colour=False))


def of(report: HistoryReport, provider: str) -> list[HistoryChange]:
    return [change for change in report.changes if change.series.key.provider == provider]


# -- changes of level


def test_a_slower_provider_is_found_with_its_size_and_its_code(tmp_path: Path) -> None:
    def night(number: int) -> Night:
        later = number >= STEP
        return Night(factors={"mine": 1.05 if later else 1.0}, sources={"mine": "bbb" if later else "aaa"})

    report = judged(history(tmp_path, 20, night))
    assert {change.series.key.provider for change in report.changes} == {"mine"}
    assert len(report.changes) == 3  # one for each size
    for change in report.changes:
        assert change.kind is Verdict.SLOWER and abs(change.at.run - STEP) <= 1
        assert change.ci and change.ci[0] < 1.05 < change.ci[1] and change.ratio == pytest.approx(1.05, abs=0.01)
        assert [(each.name, each.old, each.new) for each in change.moved.code][-1] == ("source_hash", "aaa", "bbb")
        assert not change.moved.stack and not change.moved.machine and not change.moved.baseline
    assert "changed with it: code: commit 0000000000 -> 0000000000" in told(report)


def test_a_change_of_code_of_one_of_several_is_said_beside_it(tmp_path: Path) -> None:
    def night(number: int) -> Night:
        later = number >= STEP
        return Night(
            factors={"mine": 1.05, "torch": 1.05} if later else {}, sources={"mine": "bbb" if later else "aaa"}
        )

    lines = told(judged(history(tmp_path, 20, night))).splitlines()
    assert all(
        ("its code changed" in line) == line.split(";")[0].endswith("mine") for line in lines if "slower" in line[:10]
    )


def test_a_drift_and_a_step_of_the_machine_are_no_change(tmp_path: Path) -> None:
    report = judged(
        history(tmp_path, 24, lambda number: Night(machine=1.004**number * (1.06 if number >= STEP else 1)))
    )
    assert report.changes == ()
    assert "no change in the last 10 runs" in told(report)


def test_without_copies_a_step_of_the_machine_cannot_be_told_and_the_report_says_so(tmp_path: Path) -> None:
    def night(number: int) -> Night:
        return Night(machine=1.06 if number >= STEP else 1.0, copies=False)

    report = judged(history(tmp_path, 20, night))
    assert {change.series.key.provider for change in report.changes} == {"torch", "mine"}
    assert "120 readings without a copy control in the session" in told(report)


@pytest.mark.slow
def test_a_new_torch_is_named_as_such(tmp_path: Path) -> None:
    def night(number: int) -> Night:
        later = number >= STEP
        packages = {"torch": "2.10.0" if later else "2.9.0", "triton": "3.5.0"}
        return Night(factors={"torch": 0.94 if later else 1.0}, environment={"packages": packages})

    report = judged(history(tmp_path, 20, night))
    assert {change.kind for change in report.changes} == {Verdict.FASTER}
    assert {each.text for change in report.changes for each in change.moved.stack} == {"torch 2.9.0 -> 2.10.0"}
    assert "changed with it: stack: torch 2.9.0 -> 2.10.0" in told(report)


def test_a_baseline_that_changed_too_is_named(tmp_path: Path) -> None:
    factors = {"torch": 0.9, "mine": 0.92}
    report = judged(history(tmp_path, 20, lambda number: Night(factors=factors if number >= STEP else {})))
    for change in of(report, "mine"):
        assert change.moved.baseline and change.moved.baseline[0] == "torch"
        assert change.moved.baseline[1] == pytest.approx(0.9, abs=0.01)
    assert all(change.moved.baseline is None for change in of(report, "torch"))
    assert "the baseline torch changed too, by -" in told(report)


def test_a_driver_and_a_setting_are_named(tmp_path: Path) -> None:
    def night(number: int) -> Night:
        later = number >= STEP
        environment = {"driver": "590.2" if later else "580.1", "measure": {"rounds": 9 if later else 5}}
        return Night(factors={"mine": 1.1 if later else 1.0}, environment=environment)

    [first, *_] = of(judged(history(tmp_path, 20, night)), "mine")
    assert [each.text for each in first.moved.machine] == ["driver 580.1 -> 590.2"]
    assert [each.text for each in first.moved.settings] == ["measure.rounds 5 -> 9"]


def test_a_step_of_the_copies_and_another_device_of_a_pool_are_named(tmp_path: Path) -> None:
    for number in range(20):
        later = number >= STEP
        night = Night(
            factors={"mine": 1.1 if later else 1.0},
            machine=1.05 if later else 1.0,
            fields={"device_uuid": "GPU-2" if later else "GPU-1"},
        )
        add_results(results(tmp_path / "nightly.csv", number, night), tmp_path / "history", "pool")
    report = judged(tmp_path / "history")
    assert {change.series.key.provider for change in report.changes} == {"mine"}
    for change in report.changes:
        assert [each.text for each in change.moved.machine] == ["device UUID GPU-1 -> GPU-2"]
        assert change.moved.copies == pytest.approx(1.05, abs=0.01)
    text = r"device UUID GPU-1 -> GPU-2; machine: the copy control became [45]\.\d% slower, which is subtracted"
    assert re.search(text, told(report))


def test_a_change_without_a_known_cause_says_so(tmp_path: Path) -> None:
    report = judged(history(tmp_path, 20, lambda number: Night(factors={"mine": 1.1 if number >= STEP else 1.0})))
    assert "changed with it: nothing that kbench records" in told(report)


def test_a_disturbed_night_or_two_are_no_change(tmp_path: Path) -> None:
    nights = history(tmp_path, 30, lambda number: Night(factors={"mine": 1.3 if number in (14, 28, 29) else 1.0}))
    assert judged(nights).changes == ()
    # a third such night is a change
    assert judged(history(tmp_path, 1, lambda number: Night(factors={"mine": 1.3}), first=30)).changes


def test_a_change_below_the_margin_is_not_reported_unless_the_margin_is_smaller(tmp_path: Path) -> None:
    nights = history(tmp_path, 40, lambda number: Night(factors={"mine": 1.012 if number >= 20 else 1.0}))
    assert judged(nights).changes == ()
    assert {change.series.key.provider for change in judged(nights, margin=0.005).changes} == {"mine"}


def test_older_changes_are_counted_and_do_not_fail_the_gate(tmp_path: Path) -> None:
    nights = history(tmp_path, 30, lambda number: Night(factors={"mine": 1.1 if number >= 8 else 1.0}))
    report = judged(nights, fail_on=("change",))
    assert report.reported == report.failing == () and len(report.changes) == 3
    assert "3 older changes not shown; --all shows them" in told(report)
    assert len(judged(nights, everything=True).reported) == 3
    assert len(judged(nights, recent=23, fail_on=("slower",)).failing) == 3


# -- status


def test_a_provider_that_turns_wrong_is_said_at_once_and_not_dropped(tmp_path: Path) -> None:
    nights = history(tmp_path, 4, lambda number: Night(statuses={"mine": "wrong"} if number == 3 else {}))
    report = judged(nights, fail_on=("failed",))
    assert [change.kind for change in report.changes] == [Verdict.FAILED] * 3 == [each.kind for each in report.failing]
    assert "! failed  softmax M=4096 N=256 float32 mine; wrong: differs at 3 elements" in told(report)
    assert "still failing: softmax M=4096 N=256 float32 mine: wrong since 2026-09-04: differs at 3 elements" in told(
        report
    )
    report = judged(history(tmp_path, 1, first=4))
    assert [change.kind for change in report.changes][-1] is Verdict.FIXED
    assert "still failing" not in told(report)


@pytest.mark.parametrize(
    ("later", "since"),
    [
        (Night(absent=("mine",)), "not measured since"),
        (Night(fields={"case_hash": "another"}), "measured in another way since"),
    ],
)
def test_a_series_that_ended_with_a_failure_is_not_called_still_failing(
    tmp_path: Path, later: Night, since: str
) -> None:
    report = judged(history(tmp_path, 6, lambda night: Night(statuses={"mine": "wrong"}) if night < 3 else later))
    case = "softmax M=4096 N=256 float32 mine"
    assert f"failed when last measured (2026-09-03), {since}: {case}: wrong: differs at 3 elements" in told(report)
    assert "still failing" not in told(report)


def test_a_provider_that_declines_or_is_suspect_is_said(tmp_path: Path) -> None:
    declined = {"mine": "unsupported"}
    report = judged(history(tmp_path, 4, lambda number: Night(statuses=declined if number in (1, 2) else {})))
    assert {change.kind for change in report.changes} == {Verdict.MISSING, Verdict.NEW}
    (tmp_path / "b").mkdir()
    report = judged(history(tmp_path / "b", 3, lambda n: Night(fields={"flags": ("suspect",)} if n == 2 else {})))
    assert {change.kind for change in report.changes} == {Verdict.FAILED}
    assert all(each.series.points[-1].log_ms is None for each in report.series)


def test_a_failure_that_does_not_name_its_conditions_belongs_to_its_series(tmp_path: Path) -> None:
    """A crash leaves a row without timer, device and definition of the case."""
    bare = {"timer": "", "cache": "", "device": "", "device_uuid": "", "case_hash": ""}
    nights = history(tmp_path, 3)
    path = results(tmp_path / "nightly.csv", 3, Night(statuses={"mine": "crashed"}))
    broken = results(tmp_path / "broken.csv", 3, Night(statuses={"mine": "crashed"}, fields=bare))
    lines, blank = path.read_text().splitlines(), broken.read_text().splitlines()
    whole = [no if ",crashed," in yes else yes for yes, no in zip(lines, blank, strict=True)]
    path.write_text("\n".join(whole) + "\n")
    add_results(path, nights)
    report = judged(nights)
    assert len(report.series) == 6
    assert [change.kind for change in report.changes] == [Verdict.FAILED] * 3


def test_a_row_that_is_missing_for_a_night_is_no_change_and_one_that_stays_away_is(tmp_path: Path) -> None:
    nights = history(tmp_path, 12, lambda number: Night(absent=("mine",) if number in (4, 10, 11) else ()))
    assert judged(nights).changes == ()
    report = judged(history(tmp_path, 1, lambda number: Night(absent=("mine",)), first=12))
    assert [change.kind for change in report.changes] == [Verdict.MISSING] * 3
    assert report.changes[0].reason == "absent from the last 3 runs of nightly.csv"


def test_another_definition_of_the_case_begins_a_new_series_and_says_so(tmp_path: Path) -> None:
    def night(number: int) -> Night:
        return Night(factors={"mine": 2.0, "torch": 2.0}, fields={"case_hash": "beef"}) if number >= STEP else Night()

    report = judged(history(tmp_path, 20, night))
    assert {change.kind for change in report.changes} == {Verdict.INCOMPARABLE}
    assert "case_hash c0ffee -> beef: measured in another way than before" in told(report)


# -- machines, short series, noise


def test_two_machines_are_separate_series_and_a_named_pool_is_one(tmp_path: Path) -> None:
    for number in range(16):
        one = number % 2
        night = Night(factors={"mine": 1.2, "torch": 1.2} if one else {}, fields={"device_uuid": f"GPU-{one}"})
        path = results(tmp_path / "nightly.csv", number, night)
        add_results(path, tmp_path / "apart")
        add_results(path, tmp_path / "pool", "pool of H200s")
    apart, pool = judged(tmp_path / "apart"), judged(tmp_path / "pool")
    assert apart.timeline.machines == ("NVIDIA H200 (0)", "NVIDIA H200 (1)")
    assert apart.changes == ()
    assert pool.timeline.machines == ("pool of H200s",) and len(pool.series) == 6


@pytest.mark.parametrize(
    "uuids", [("GPU-1234567890", "GPU-1234567891"), ("", "GPU-1"), ("MIG-GPU-1/1/0", "MIG-GPU-1/2/0")]
)
def test_machines_whose_names_begin_alike_stay_apart(tmp_path: Path, uuids: tuple[str, str]) -> None:
    for number in range(4):
        night = Night(fields={"device_uuid": uuids[number % 2]})
        add_results(results(tmp_path / "nightly.csv", number, night), tmp_path / "history")
    report = judged(tmp_path / "history")
    assert len(report.timeline.machines) == 2 and len(report.series) == 12


@pytest.mark.parametrize("nights", [1, 2, 5])
def test_a_short_series_has_no_change_and_the_report_says_why(tmp_path: Path, nights: int) -> None:
    report = judged(history(tmp_path, nights, lambda number: Night(factors={"mine": 1.0 + number})))
    assert report.changes == ()
    assert "6 series have fewer than 6 measured times, too few to find a change of level" in told(report)


def test_sessions_of_a_run_are_one_point(tmp_path: Path) -> None:
    report = judged(history(tmp_path, 2, lambda number: Night(sessions=3)))
    assert [len(each.series.points) for each in report.series] == [2] * 6


def test_equal_times_are_no_fault(tmp_path: Path) -> None:
    """A clock with coarse steps gives the same time every night."""
    import numpy as np

    from kbench.history.change_points import level_changes, own_noise, shared_noise

    values = np.zeros(30)
    assert own_noise(values) == 0.0
    noise = shared_noise(0.0, 30, 0.0, 0.0)
    assert noise > 0 and level_changes(values, noise, 0.02) == []
    values[20:] = math.log(1.03)
    [change] = level_changes(values, noise, 0.02)
    assert (change.at, change.earliest, change.latest) == (20, 20, 20)


def test_noise_that_hides_changes_is_said(tmp_path: Path) -> None:
    draw = random.Random(0)
    report = judged(history(tmp_path, 20, lambda number: Night(factors={"mine": draw.lognormvariate(0, 0.1)})))
    assert report.changes == ()
    noisy = told(judged(tmp_path / "history", where="provider=mine"))
    assert re.search(r"with this noise, a step of less than about [23]\d % may take more than three runs", noisy)
    (tmp_path / "quiet").mkdir()
    assert "with this noise" not in told(judged(history(tmp_path / "quiet", 20)))


def test_a_quiet_series_stays_quiet_beside_noisy_ones(tmp_path: Path) -> None:
    draw = random.Random(0)
    report = judged(history(tmp_path, 30, lambda number: Night(factors={"mine": draw.lognormvariate(0, 0.1)})))
    assert max(each.noise for each in report.series if each.series.key.provider == "torch") < 0.015
