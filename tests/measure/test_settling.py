"""How long kbench waits for the clock of a device, and what a worker measures only once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from in_process import MadeUpInstruments

from kbench.measure.instruments import EMPTY_ROUNDS
from kbench.measure.machine import settling
from kbench.measure.machine.settling import SettledClock
from kbench.measure.timing.timer import Samples


def device(*readings_mhz: float | None) -> Any:
    """Telemetry that reads these clocks in turn."""
    left = list(readings_mhz)
    return SimpleNamespace(read=lambda: {"sm_mhz": left.pop(0)})


@pytest.fixture
def worked() -> list[float]:
    """The seconds of work that were asked for."""
    return []


def test_a_clock_that_rises_is_waited_for(worked: list[float]) -> None:
    SettledClock(device(345, 1200, 1980, 1980, 1980)).settle(worked.append)
    assert worked == [settling.WINDOW_S] * 4


def test_one_reading_is_enough_while_the_clock_stays_where_it_settled(worked: list[float]) -> None:
    clock = SettledClock(device(1980, 1980, 1980, 1975, 1980))
    for waits in (2, 0, 0):
        worked.clear()
        clock.settle(worked.append)
        assert len(worked) == waits


@pytest.mark.parametrize("then", [(1500, 1980, 1980, 1980), (1200, 1200, 1200)])
def test_a_clock_that_has_changed_since_is_waited_for_again(then: tuple[float, ...], worked: list[float]) -> None:
    clock = SettledClock(device(1980, 1980, 1980, *then))
    clock.settle(worked.append)
    worked.clear()
    clock.settle(worked.append)
    assert len(worked) == len(then) - 1


def test_a_device_that_does_not_tell_its_clock_is_not_waited_for(worked: list[float]) -> None:
    SettledClock(device(None)).settle(worked.append)
    assert not worked


class Counting:
    """A timer that counts the rounds of its `empty` control."""

    name = "counting"

    def __init__(self) -> None:
        self.warmups: list[float] = []

    def empty(self) -> Any:
        def sample(warmup_ms: float, rep_ms: float) -> Samples:
            self.warmups.append(warmup_ms)
            return Samples([0.004])

        return sample


def test_a_session_measures_its_timer_once_for_each_kind_of_cache() -> None:
    session, timer = MadeUpInstruments(), Counting()
    first = session.empty(timer, "cold")  # type: ignore[arg-type]
    assert len(first.rounds) == EMPTY_ROUNDS and timer.warmups[0] > 0 and not any(timer.warmups[1:])
    assert session.empty(timer, "cold") is first and len(timer.warmups) == EMPTY_ROUNDS  # type: ignore[arg-type]
    assert session.empty(timer, "warm") is not first  # type: ignore[arg-type]
