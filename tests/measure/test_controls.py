"""The controls: `empty` is a row of every case, with a time and no bytes, and less of a time than anything that does work;
`repeat` is timed as the baseline is."""

from __future__ import annotations

import pytest
from in_process import MadeUpInstruments, case_run

from kbench.contract.registry import operator
from kbench.measure import case as measured
from kbench.protocol import Configuration, Measure, Task
from kbench.results.case import Case
from kbench.results.timers import TICK_MS


def test_the_repeat_is_prepared_as_the_baseline_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device the time that the host needs for a launch decides how the timer prepares one."""
    monkeypatch.setattr(measured, "measure_launch_ms", lambda fn, device: 0.5)
    settings = Measure(cache="cold", warmup_ms=0, rep_ms=1, rounds=1, seed=0, timeout_s=60, build_timeout_s=60)
    case = Case("softmax", {"M": 4, "N": 8}, "float32")
    task = Task(case, (Configuration("torch-native", {}),), "torch-native", settings, 0)
    run = measured.CaseRun(operator("softmax"), task, MadeUpInstruments(), lambda event: None)
    launch_ms = {row.provider: row.launch_ms for row in run.run()}
    assert launch_ms == {"torch-native": 0.5, "copy": None, "empty": None, "repeat": 0.5}


def test_the_rows_of_a_case_say_how_well_they_are_known() -> None:
    """From two rounds on; half a tick of the clock is the least for a time, and twice that for a ratio."""
    one, three = (
        {
            row.provider: row
            for row in case_run(operator("softmax"), ["torch-native", "torch-eager"], rounds=n, M=4, N=8).run()
        }
        for n in (1, 3)
    )
    assert one.pop("empty").precision, "the session measures it in five rounds"
    assert {row.precision for row in one.values()} == {None}
    assert all(row.precision and row.precision >= TICK_MS / 2 / row.ms for row in three.values() if row.ms)


def test_stages_are_measured_once_for_all_providers_of_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = [{"alloc_ms": 1.0, "h2d_ms": 2.0, "d2h_ms": 3.0}]
    monkeypatch.setattr(measured, "measure_stages", lambda *arguments: stages.pop())
    run = case_run(operator("softmax"), ["torch-native", "torch-eager"], M=8, N=64)
    run.settings = run.settings.model_copy(update={"stages": True})
    assert [row.h2d_ms for row in run.run() if row.role == "provider"] == [2.0, 2.0]


@pytest.mark.gpu
@pytest.mark.parametrize("timer", ["do_bench", "graph"])
def test_nothing_takes_less_than_an_empty_kernel(timer: str) -> None:
    for n in (64, 1024):
        run = case_run(
            operator("softmax"), ["torch-native"], timer=timer, cache="cold", rounds=2, rep_ms=10, M=1024, N=n
        )
        times_ms = {row.provider: row.ms for row in run.run()}
        empty_ms = times_ms.pop("empty")
        assert empty_ms and all(ms and empty_ms < ms for ms in times_ms.values()), (n, empty_ms, times_ms)
