"""The controls: `empty` is a row of every case, with a time and no bytes, and less of a time than anything that does work;
`repeat` is timed as the baseline is."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from common import Kbench
from in_process import MadeUpInstruments, case_run

from kbench.contract.registry import operator
from kbench.measure import case as measured
from kbench.protocol import Configuration, Measure, Task
from kbench.results.case import Case
from kbench.results.timers import TICK_MS

SWEEP = """
operator: softmax
sweep: {{M: 1024, N: [64, 1024], dtype: float32}}
providers: [torch-native, torch-eager]
baseline: torch-native
measure: {{warmup_ms: 1, rep_ms: 10, rounds: 2, timer: {timer}}}
"""


def by_case(kbench: Kbench, write_config, tmp_path: Path, timer: str) -> dict[int, pd.DataFrame]:
    """The rows of a run by N, indexed by provider."""
    done = kbench("run", write_config(SWEEP.format(timer=timer)), "--no-plot")
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "results" / "sweep.csv")
    return {int(n): case.set_index("provider") for n, case in rows.groupby("N")}


@pytest.mark.slow
def test_every_case_says_what_the_timer_costs(kbench: Kbench, write_config, tmp_path: Path) -> None:
    cases = by_case(kbench, write_config, tmp_path, "do_bench")
    assert list(cases) == [64, 1024]
    for case in cases.values():
        empty = case.loc["empty"]
        assert empty.status == "ok" and empty.ms > 0
        assert empty.gbps == 0


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


def test_the_timer_costs_the_same_in_all_cases_of_a_session() -> None:
    instruments = MadeUpInstruments()
    rows = []
    for n in (8, 16):
        run = case_run(operator("softmax"), ["torch-native"], M=4, N=n, instruments=instruments)
        rows += [row for row in run.run() if row.provider == "empty"]
    assert len(rows) == 2 and rows[0].round_ms == rows[1].round_ms and rows[0].case != rows[1].case


@pytest.mark.gpu
@pytest.mark.parametrize("timer", ["do_bench", "graph"])
def test_nothing_takes_less_than_an_empty_kernel(kbench: Kbench, write_config, tmp_path: Path, timer: str) -> None:
    for n, case in by_case(kbench, write_config, tmp_path, timer).items():
        others = case.ms.drop("empty")
        assert others.notna().all() and (case.ms["empty"] < others).all(), (n, case.ms.to_dict())
