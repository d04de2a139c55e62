"""A history: a change is found, named with what moved, and no drift of the machine is taken for one."""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from common import Kbench
from history.nights import Night, history, judged

from kbench.comparison.verdict import Verdict
from kbench.history.change_points import level_changes, own_noise, shared_noise
from kbench.history.report import HistoryReport
from kbench.history.report_text import report_lines

STEP = 12


def text_of(report: HistoryReport) -> str:
    return "\n".join(report_lines(report, colour=False))


def slower(number: int, ratio: float = 1.1) -> dict[str, float]:
    """The factors of a night if `mine` becomes slower in night STEP."""
    return {"mine": ratio if number >= STEP else 1.0}


# -- changes of level, and what moved with them


def test_a_baseline_that_changed_too_is_named() -> None:
    factors = {"torch": 0.9, "mine": 0.92}
    report = judged(20, lambda number: Night(factors=factors if number >= STEP else {}))
    for change in report.changes:
        if change.series.key.provider == "torch":
            assert change.moved.baseline is None
        else:
            assert change.moved.baseline == ("torch", pytest.approx(0.9, abs=0.01))
    assert "the baseline torch changed too, by -" in text_of(report)


def test_a_step_of_the_copies_and_another_device_of_a_pool_are_named() -> None:
    def night(number: int) -> Night:
        later = number >= STEP
        uuid = {"device_uuid": "GPU-2" if later else "GPU-1"}
        return Night(slower(number), machine=1.05 if later else 1.0, fields=uuid)

    report = judged(20, night)
    assert {change.series.key.provider for change in report.changes} == {"mine"}
    for change in report.changes:
        assert [each.text for each in change.moved.properties["machine"]] == ["device UUID GPU-1 -> GPU-2"]
        assert change.moved.copies == pytest.approx(1.05, abs=0.01)
    text = r"device UUID GPU-1 -> GPU-2; machine: the copy control became [45]\.\d% slower, which is subtracted"
    assert re.search(text, text_of(report))


def test_a_disturbed_night_or_two_are_no_change_and_a_third_one_is() -> None:
    def night(number: int) -> Night:
        return Night(factors={"mine": 1.3 if number in (14, 28, 29, 30) else 1.0})

    assert judged(30, night).changes == ()
    assert judged(31, night).changes


# -- changes of status


def test_a_failure_that_does_not_name_its_conditions_belongs_to_its_series() -> None:
    """A crash leaves a row without timer, device and definition of the case."""
    bare = {"timer": "", "cache": "", "device": "", "device_uuid": "", "case_hash": ""}
    crashed = Night(statuses={"mine": "crashed"}, mine=bare)
    report = judged(4, lambda number: crashed if number == 3 else Night())
    assert len(report.series) == 6
    assert [change.kind for change in report.changes] == [Verdict.FAILED] * 3


# -- machines, short series, noise


def test_each_device_of_a_session_has_a_level_of_its_own() -> None:
    """Two cards share the cases of a run, and one of them is slower from a night on."""

    def night(number: int) -> Night:
        return Night(machine=1.1 if number % 2 else 1.0, fields={"device_uuid": f"GPU-{number % 2}"}, sessions=2)

    assert judged(20, night).changes == ()


def test_equal_times_are_no_fault() -> None:
    """A clock with coarse steps gives the same time every night."""
    values = np.zeros(30)
    assert own_noise(values) == 0.0
    noise = shared_noise(0.0, 30, 0.0, 0.0)
    assert noise > 0 and level_changes(values, noise, 0.02) == []
    values[20:] = math.log(1.03)
    [change] = level_changes(values, noise, 0.02)
    assert (change.at, change.earliest, change.latest) == (20, 20, 20)


# -- the folder


def test_sessions_that_were_appended_to_a_copied_file_count_once(kbench: Kbench, tmp_path: Path) -> None:
    history(tmp_path, 1, lambda number: Night(sessions=2))
    night = tmp_path / "history" / "night-00"
    shutil.copytree(night, tmp_path / "history" / "before")
    copy = tmp_path / "history" / "before" / "nightly.csv"
    lines = copy.read_text().splitlines()
    copy.write_text("\n".join(lines[: 1 + len(lines) // 2]) + "\n")
    done = kbench("history", "check", "history", "--json", "-")
    assert done.stdout.count('"ms"') == 12, "two points of each of six series, with other times"
