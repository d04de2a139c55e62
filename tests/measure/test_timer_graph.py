"""The graph timer where no graph can be made. On a device its times are compared in test_cheats.py."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from kbench.contract.provider import Unsupported
from kbench.measure.timing.graph import GraphTimer


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> GraphTimer:
    """On a stand-in for a device, which captures nothing."""
    stream = SimpleNamespace(wait_stream=lambda other: None)
    for name in ("Stream", "current_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda: stream)
    for name in ("stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, lambda of, **options: nullcontext())
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: None)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return GraphTimer(SimpleNamespace(type="cuda"), "warm")  # type: ignore[arg-type]


def after_three_calls(error: Exception) -> Callable[[], None]:
    """A function that fails when it is captured, after the calls that come before that."""
    calls = [0]

    def call() -> None:
        calls[0] += 1
        if calls[0] > 3:
            raise error

    return call


def test_memory_that_runs_out_in_a_capture_is_no_refusal(timer: GraphTimer) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate"):
        timer.ready([after_three_calls(torch.OutOfMemoryError("Tried to allocate 20.00 GiB"))], None)


def test_what_a_capture_forbids_is_declined(timer: GraphTimer) -> None:
    with pytest.raises(Unsupported, match="cannot be captured in a CUDA graph: operation not permitted"):
        timer.ready([after_three_calls(RuntimeError("operation not permitted\nmore"))], None)


def test_python_collects_no_garbage_during_a_capture(timer: GraphTimer) -> None:
    collects: list[bool] = []
    timer.ready([lambda: collects.append(gc.isenabled())], None)
    assert collects[:3] == [True] * 3, "the calls ahead of the capture"
    assert set(collects[3:]) == {False}
    with pytest.raises(Unsupported):
        timer.ready([after_three_calls(RuntimeError("operation not permitted"))], None)
    assert gc.isenabled()


def test_every_call_of_a_graph_has_buffers_of_its_own_if_memory_allows() -> None:
    device = SimpleNamespace(type="cuda", cache_bytes=50 * 2**20)
    cold = GraphTimer(device, "cold")  # type: ignore[arg-type]
    assert [cold.sets(mb * 2**20) for mb in (1, 10, 50, 100, 1000)] == [151, 20, 20, 3, 2]
    assert GraphTimer(device, "warm").sets(2**20) == 1  # type: ignore[arg-type]
