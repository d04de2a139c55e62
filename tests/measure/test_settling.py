"""How long kbench waits for the clock of a device, and what a worker measures only once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbench.measure.machine import settling
from kbench.measure.machine.settling import SettledClock


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
