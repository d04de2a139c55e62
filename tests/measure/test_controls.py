"""The `empty` control: a row of every case, with a time and no bytes, and less of a time than anything that does work."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from common import Kbench

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


def test_every_case_says_what_the_timer_costs(kbench: Kbench, write_config, tmp_path: Path) -> None:
    cases = by_case(kbench, write_config, tmp_path, "do_bench")
    assert list(cases) == [64, 1024]
    for case in cases.values():
        empty = case.loc["empty"]
        assert empty.status == "ok" and empty.ms > 0
        assert empty.gbps == 0


@pytest.mark.gpu
@pytest.mark.parametrize("timer", ["do_bench", "graph"])
def test_nothing_takes_less_than_an_empty_kernel(kbench: Kbench, write_config, tmp_path: Path, timer: str) -> None:
    for n, case in by_case(kbench, write_config, tmp_path, timer).items():
        others = case.ms.drop("empty")
        assert others.notna().all() and (case.ms["empty"] < others).all(), (n, case.ms.to_dict())
