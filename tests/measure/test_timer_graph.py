"""The graph timer where no graph can be made, and cases with many sets of buffers. On a device: its times beside those of
events."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from in_process import matrices, measured

from kbench.measure.timing.graph import GraphTimer


def test_every_call_of_a_graph_has_buffers_of_its_own_if_memory_allows() -> None:
    device = SimpleNamespace(type="cuda", cache_bytes=50 * 2**20)
    cold = GraphTimer(device, "cold")  # type: ignore[arg-type]
    assert [cold.sets(mb * 2**20) for mb in (1, 10, 50, 100, 1000)] == [151, 20, 20, 3, 2]
    assert GraphTimer(device, "warm").sets(2**20) == 1  # type: ignore[arg-type]


@pytest.mark.gpu
def test_on_a_device_it_agrees_with_events_and_refuses_a_call_that_waits() -> None:
    twice = matrices("graph-waits", lambda x: x * 2)
    twice.provider("honest")(lambda x: x * 2)
    twice.provider("waits")(lambda x: x * 2 if x.sum().item() < 1e30 else x.clone())
    events, graph = (
        measured(twice, timer=timer, cache="cold", rounds=3, rep_ms=20, dtype="float32", M=8192, N=8192)
        for timer in ("do_bench", "graph")
    )
    assert graph["waits"].status == "unsupported"
    assert "cannot be captured in a CUDA graph" in graph["waits"].reason
    assert events["waits"].ms and events["honest"].ms and graph["honest"].ms
    assert events["honest"].ms * 0.8 < graph["honest"].ms < events["honest"].ms * 1.05
