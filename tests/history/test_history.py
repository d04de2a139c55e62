"""A history: a change is found, named with what moved, and no drift of the machine is taken for one."""

from __future__ import annotations

import datetime
import json
import math
import random
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from common import Kbench
from making import failed, row, write_rows

from kbench.comparison.verdict import Verdict
from kbench.history.change_points import level_changes, own_noise, shared_noise
from kbench.history.changes import MovedProperty
from kbench.history.report import HistoryOptions, HistoryReport, judge_runs
from kbench.history.report_text import report_lines
from kbench.history.timeline import Run
from kbench.results.environment import Environment
from kbench.results.row import Row

FIRST = datetime.datetime(2026, 9, 1, 2, tzinfo=datetime.UTC)
SIZES = (256, 512, 1024)
MACHINE = {
    "env_id": "e1",
    "device": "NVIDIA H200",
    "driver": "580.1",
    "packages": {"torch": "2.9.0"},
    "baseline": "torch",
}


@dataclass
class Night:
    """What is different in a night. `factors` multiply the times of a provider; `crashed` ones have none. `fields` are those
    of all rows, `mine` those of the rows of `mine`."""

    factors: Mapping[str, float] = field(default_factory=dict)
    crashed: tuple[str, ...] = ()
    machine: float = 1.0
    fields: Mapping[str, Any] = field(default_factory=dict)
    mine: Mapping[str, Any] = field(default_factory=dict)
    sessions: int = 1
    torch: str = "2.9.0"


def rows_of(number: int, night: Night) -> list[Row]:
    """The rows of a night. The noise is 0.4 %, the same in every run of the tests."""
    draw = random.Random(number)
    rows: list[Row] = []
    moment = (FIRST + datetime.timedelta(days=number)).isoformat(timespec="seconds")
    for session in range(night.sessions):
        shared = night.machine * draw.lognormvariate(0, 0.006)
        common = {"session": session, "started_at": moment, "env_id": "e1", "device_uuid": "GPU-1", **night.fields}
        for n in SIZES:
            for provider in ("torch", "mine", "copy"):
                ms = 0.01 * shared * draw.lognormvariate(0, 0.004) * night.factors.get(provider, 1.0)
                own = common | (night.mine if provider == "mine" else {})
                own |= {"role": "control"} if provider == "copy" else {"source_hash": "aaa"}
                made = (
                    failed(n, "crashed", provider, **own) if provider in night.crashed else row(n, ms, provider, **own)
                )
                rows.append(made)
    return rows


def judged(nights: int, of: Callable[[int], Night], **options: Any) -> HistoryReport:
    """A judged history of so many nights."""
    in_order = [of(number) for number in range(nights)]
    machines = [Environment.model_validate(MACHINE | {"packages": {"torch": night.torch}}) for night in in_order]
    runs = [Run(Path("nightly.csv"), rows_of(number, in_order[number]), machines[number]) for number in range(nights)]
    return judge_runs(Path("history"), runs, HistoryOptions(**options))


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


def test_changes_are_in_the_order_of_time_and_a_new_package_is_one_of_the_stack() -> None:
    def night(number: int) -> Night:
        factors = {"torch": 1.2 if number >= STEP else 1.0, "mine": 1.2 if number >= STEP - 5 else 1.0}
        return Night(factors, torch="2.10.0" if number >= STEP else "2.9.0")

    report = judged(20, night, everything=True)
    assert [change.series.key.provider for change in report.changes] == ["mine"] * 3 + ["torch"] * 3
    stack = [[moved.text for moved in change.moved.properties["stack"]] for change in report.changes]
    assert stack == [[]] * 3 + [["torch 2.9.0 -> 2.10.0"]] * 3


def test_a_commit_is_cut_and_keeps_its_mark_of_uncommitted_changes() -> None:
    assert MovedProperty("commit", "a" * 40, "b" * 40 + "+").text == "commit aaaaaaaaaa -> bbbbbbbbbb+"


# -- changes of status


def test_a_failure_that_does_not_name_its_conditions_belongs_to_its_series() -> None:
    """A crash leaves a row without timer, device and definition of the case."""
    bare = {"timer": "", "cache": "", "device": "", "device_uuid": "", "case_hash": ""}
    crashed = Night(crashed=("mine",), mine=bare)
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
    night = tmp_path / "history" / "night-00"
    night.mkdir(parents=True)
    write_rows(night / "nightly.csv", rows_of(0, Night(sessions=2)))
    (night / "nightly.env.json").write_text(json.dumps(MACHINE))
    shutil.copytree(night, tmp_path / "history" / "before")
    copy = tmp_path / "history" / "before" / "nightly.csv"
    lines = copy.read_text().splitlines()
    copy.write_text("\n".join(lines[: 1 + len(lines) // 2]) + "\n")
    done = kbench("history", "check", "history", "--json", "-")
    assert done.stdout.count('"ms"') == 12, "two points of each of six series, with other times"
