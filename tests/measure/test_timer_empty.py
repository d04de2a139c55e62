"""What a timer records as its own cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbench.measure.timer import BenchTimer

EVENTS_MS, KERNEL_MS = 4e-3, 0.9e-3


def device(accelerated: bool) -> Any:
    """A device that counts the empty kernels it is given."""
    found = SimpleNamespace(accelerated=accelerated, launched=0)
    found.empty_call = lambda: setattr(found, "launched", found.launched + 1)
    return found


@pytest.mark.parametrize("accelerated, expected", [(True, EVENTS_MS), (False, EVENTS_MS + KERNEL_MS)])
def test_the_empty_kernel_itself_is_not_what_events_cost(
    monkeypatch: pytest.MonkeyPatch, accelerated: bool, expected: float
) -> None:
    """Events read what they cost, and a kernel more for each that is launched; some readings are late."""

    def read(timer: BenchTimer, call: Any, host_ms: float | None) -> list[float]:
        timer.device.launched = 0
        call()
        return [EVENTS_MS + timer.device.launched * KERNEL_MS + late for late in (0.0, 0.0, 0.0, 5e-3)]

    monkeypatch.setattr(BenchTimer, "_samples", read)
    samples = BenchTimer(device(accelerated), "cold", warmup_ms=1, rep_ms=5).empty()()
    assert samples == pytest.approx([expected] * 3 + [expected + 5e-3])
