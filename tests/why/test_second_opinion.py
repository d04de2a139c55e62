"""`kbench why --timers`: what the timers read for one row, and which of them to believe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from common import run_kbench
from fake_executor import FakeMachine, Provider
from making import row, write_rows

from kbench.execute.plan import Task
from kbench.results.row import Row
from kbench.results.timers import SELECTABLE_TIMERS
from kbench.results.vocabulary import Role, Status
from kbench.why.second_opinion import TimerReading, judge_readings, reading_rows, readings_of


def reading(timer: str, us: float | None, empty_us: float | None = None, kernels: int = 1) -> TimerReading:
    return TimerReading(
        timer, timer, None if us is None else us * 1e-3, None if empty_us is None else empty_us * 1e-3, kernels
    )


def read(bench: float | None, graph: float | None, cupti: float | None, kernels: int = 1) -> list[TimerReading]:
    """Readings in us, on a device on which do_bench adds 4 us."""
    return [
        reading("do_bench", bench, 4.0, kernels),
        reading("graph", graph, 1.1, kernels),
        reading("cupti", cupti, 0.6, kernels),
    ]


@pytest.mark.parametrize(
    ("readings", "kind", "believe", "said"),
    [
        (read(70.5, 67, 66.6), "agree", "do_bench", "the 4.00 us that it adds, agrees with cupti and graph: believe do_bench"),
        (read(9.8, 6.3, 5.5), "short-call", "cupti", "But these 4.00 us are 41% of its reading: believe cupti."),
        (read(132.2, 126.3, 135.4), "profiler-lengthens", "do_bench", "reads 128.2 us, without what it adds, and cupti reads"),
        (read(60.0, 30.0, 29.5), "device-waits", "cupti", "the device waits for 26.50 us before the first kernel of the call"),
        (read(60.0, 45.0, 55.5), "graph-differs", "do_bench", "may find some of its data in the cache"),
        (read(60.0, 45.0, 55.5, kernels=8), "graph-differs", "do_bench", "the gaps between the kernels of a call are shorter"),
        (read(60.0, 62.0, 55.5, kernels=8), "agree", "do_bench", "agrees with cupti and graph"),
        (read(60.0, 65.0, 55.5), "graph-differs", "do_bench", "a call also waits while memory takes"),
        (read(60.0, None, 55.5), "agree", "do_bench", "agrees with cupti: believe do_bench"),
        (read(9.8, 6.3, None), "short-call", "graph", "believe graph"),
        (read(8.9, 4.5, 4.0), "short-call", "cupti", "agrees with cupti and graph. But these"),  # `empty` moves 0.9 us
        (read(60.0, None, None), "unconfirmed", "do_bench", "Nothing confirms the reading of do_bench"),
        (read(None, 60.0, 60.0), "unconfirmed", "graph", "Nothing confirms the reading of graph"),
        (read(None, None, None), "no-reading", "", "No timer could time it."),
        ([], "no-reading", "", "No timer could time it."),
        ([*read(60.0, None, None), reading("laser", 7.0)], "unconfirmed", "do_bench", "confirms the reading of do_bench"),
        ([*read(9.8, None, 5.5), reading("laser", 7.0)], "short-call", "cupti", "agrees with cupti. But these"),
        (read(3.5, 1.0, 0.6), "short-call", "cupti", "Nearly all that do_bench reads are the 4.00 us that it adds"),
    ],
)  # fmt: skip
def test_one_sentence_says_which_timer_to_believe(
    readings: list[TimerReading], kind: str, believe: str, said: str
) -> None:
    found = judge_readings(readings)
    assert (found.kind, found.believe) == (kind, believe), found
    assert said in found.sentence


def test_what_do_bench_adds_is_taken_off_and_that_of_others_is_not() -> None:
    bench, _, cupti = reading_rows(read(60.0, None, 55.5))
    assert bench == ["do_bench", "60.00 us", "4.00 us", "56.00 us", "", ""]
    assert cupti == ["cupti", "55.50 us", "", "55.50 us", "", ""]
    several = TimerReading("cupti", "cupti", 0.02, None, kernels=8, gap_ms=0.007)
    assert list(reading_rows([several])) == [["cupti", "20.00 us", "", "20.00 us", "7.00 us", ""]]


def measured(timer: str, ms: float | None, **fields: str) -> list[Row]:
    status = {} if ms is not None else {"status": Status.UNSUPPORTED}
    return [
        row(provider="triton", ms=ms, timer=timer, **status, **fields),
        row(provider="empty", ms=0.004, timer=timer, role=Role.CONTROL),
    ]


def test_a_timer_without_a_reading_says_why() -> None:
    rows = {"do_bench": measured("do_bench", 0.06), "graph": measured("graph", None, reason="it waits"), "cupti": []}
    bench, graph, cupti = readings_of(rows, "triton")
    assert (bench.ms, bench.empty_ms, bench.why_not) == (0.06, 0.004, "")
    assert (graph.ms, graph.why_not) == (None, "unsupported: it waits")
    assert (cupti.ms, cupti.why_not) == (None, "the run has no row for it")


SWEEP = """
operator: softmax
sweep: {M: 16, N: [64, 128]}
providers: [torch-native, torch-eager, triton]
baseline: torch-native
measure: {warmup_ms: 1, rep_ms: 2, rounds: 2, timer: graph}
"""


@pytest.fixture
def tasks(fake_machine: FakeMachine, tmp_path: Path) -> list[Task]:
    """What is measured after the first run."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    run_kbench(["run", "sweep.yaml", "--no-plot"], tmp_path)
    found: list[Task] = []
    fake_machine.before = found.append
    return found


ROW = ["why", "results/sweep.csv", "--row", "provider=torch-eager,N=128"]


def test_the_row_is_measured_with_each_timer_and_nothing_else_changes(tmp_path: Path, tasks: list[Task]) -> None:
    files = sorted(path.name for path in (tmp_path / "results").iterdir())
    done = run_kbench([*ROW, "--versus", "torch-native", "--timers"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [task.settings.timer for task in tasks] == list(SELECTABLE_TIMERS)
    assert {task.settings.rounds for task in tasks} == {2} and {task.case.axes["N"] for task in tasks} == {128}
    assert [one.name for one in tasks[0].configurations] == ["torch-native", "torch-eager"]
    for name in ("torch-eager", "torch-native"):
        at = done.stdout.index(f"{name}: measured again with each timer")
        assert all(timer in done.stdout[at:] for timer in SELECTABLE_TIMERS) and "believe" in done.stdout[at:]
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == files


def test_json_has_the_readings_and_the_opinion(tmp_path: Path, tasks: list[Task]) -> None:
    done = run_kbench([*ROW, "--timers", "--json"], tmp_path)
    [found] = json.loads(done.stdout)["rows"]
    assert [each["timer"] for each in found["timers"]["readings"]] == list(SELECTABLE_TIMERS)
    assert found["timers"]["opinion"]["believe"] in ("do_bench", "cupti")


@pytest.mark.parametrize(
    ("launch_ms", "scope", "offered"), [(0.01, "device", True), (None, "device", False), (0.01, "host", False)]
)
def test_without_timers_the_page_of_a_device_says_how_to_get_them(
    tmp_path: Path, launch_ms: float | None, scope: str, offered: bool
) -> None:
    (tmp_path / "sweep.env.json").write_text(json.dumps({"scope": scope}))
    write_rows(tmp_path / "sweep.csv", [row(4096, launch_ms=launch_ms)])
    done = run_kbench(["why", "sweep.csv", "--row", "provider=triton,N=4096"], tmp_path)
    assert ("kbench why sweep.csv --row provider=triton --timers" in done.stdout) is offered, done.stderr


def test_another_machine_is_refused(tmp_path: Path, tasks: list[Task], fake_machine: FakeMachine) -> None:
    fake_machine.name = "another host"
    done = run_kbench([*ROW, "--timers"], tmp_path)
    assert done.returncode == 2 and "device was made-up host and is now another host" in done.stderr and tasks == []


def test_other_code_is_refused(tmp_path: Path, tasks: list[Task], fake_machine: FakeMachine) -> None:
    fake_machine.providers["torch-eager"] = Provider(source_hash="other code")
    done = run_kbench([*ROW, "--timers"], tmp_path)
    assert done.returncode == 2 and "the code of torch-eager has changed" in done.stderr and tasks == []
