"""What a timer records as its own cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbench.measure.timing.do_bench import BenchTimer
from kbench.measure.timing.timer import Samples

EVENTS_MS, KERNEL_MS, GAP_MS = 4e-3, 0.6e-3, 0.9e-3


def device(accelerated: bool) -> Any:
    """A device that counts the empty kernels it is given."""
    found = SimpleNamespace(accelerated=accelerated, launched=0)
    found.empty_call = lambda: setattr(found, "launched", found.launched + 1)
    return found


@pytest.mark.parametrize("accelerated, own_ms", [(True, (KERNEL_MS + GAP_MS) / 2), (False, 0.0)])
def test_the_empty_kernel_itself_is_not_what_events_cost(
    monkeypatch: pytest.MonkeyPatch, accelerated: bool, own_ms: float
) -> None:
    """Events read what they cost, every kernel that is launched, and the gaps between; some readings are late. Half of
    what a second kernel adds is taken for its own time."""

    def read(timer: BenchTimer, call: Any, *budget: Any) -> Samples:
        timer.device.launched = 0
        call()
        kernels = timer.device.launched
        return Samples(
            [EVENTS_MS + kernels * KERNEL_MS + (kernels - 1) * GAP_MS + late for late in (0.0, 0.0, 0.0, 5e-3)]
        )

    monkeypatch.setattr(BenchTimer, "_samples", read)
    samples = BenchTimer(device(accelerated), "cold").empty()(1, 5).ms
    expected = EVENTS_MS + KERNEL_MS - own_ms
    assert samples == pytest.approx([expected] * 3 + [expected + 5e-3])
