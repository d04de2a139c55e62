"""What readers of a row conclude from its timer."""

from __future__ import annotations

import pytest
from making import row

from kbench.analysis.pairwise import ticks_of
from kbench.measure.machine.device import Device
from kbench.measure.timing.timer import make_timer
from kbench.protocol import Measure
from kbench.results.timers import TIMERS, timer_kind


@pytest.mark.parametrize(("timer", "some"), [("do_bench", True), ("graph", False), ("", True)])
def test_a_step_of_the_clock_counts_where_single_calls_are_timed(timer: str, some: bool) -> None:
    assert (ticks_of([row(ms=0.005, timer=timer)]) > 0) is some


def test_every_timer_of_a_config_is_described_and_can_be_made() -> None:
    offered = Measure.model_json_schema()["properties"]["timer"]["enum"]
    assert "do_bench" in offered and set(offered) <= set(TIMERS)
    for name in offered:
        assert make_timer(name, Device(), "cold").name in TIMERS


def test_a_timer_of_another_version_is_taken_for_single_calls() -> None:
    assert timer_kind("laser") == timer_kind("do_bench")
