"""The controls: `empty` is a row of every case, with a time and no bytes, and less of a time than anything that does work;
`repeat` is timed as the baseline is."""

from __future__ import annotations

import pytest
from in_process import case_run

from kbench.contract.registry import operator
from kbench.results.timers import TICK_MS


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
