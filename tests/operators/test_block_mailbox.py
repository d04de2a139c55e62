"""Rows whose blocks wait for each other through words in device memory: eager, in graphs, and one shape after another."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from judging import DEVICE

from kbench.contract.registry import operator
from kbench.kernels import block_mailbox, cuda_extension
from kbench.results.case import Case

on_a_gpu = pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a CUDA or ROCm device")


@pytest.fixture(params=["triton", "cuda"])
def bind(request: pytest.FixtureRequest) -> Callable[[torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]:
    if request.param == "triton":
        pytest.importorskip("triton")
    elif reason := cuda_extension.missing_tools():
        pytest.skip(reason)
    provider = operator("softmax").providers[request.param]
    return lambda x: provider.bind(Case("softmax", {"M": x.shape[0], "N": x.shape[1]}, str(x.dtype)[6:]), {})


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("m, n", [(1, 262144), (7, 200_001), (16, 262144), (5, 1_500_000), (4096, 65536)])
def test_graphs_that_are_replayed_side_by_side(bind, m, n):
    """Each has words of its own, so that graphs and eager launches do not take each other's."""
    x = torch.randn(m, n, device=DEVICE)
    function = bind(x)
    expected = function(x)
    graphs, outputs = [torch.cuda.CUDAGraph() for _ in range(3)], []
    for graph in graphs:
        with torch.cuda.graph(graph):
            outputs.append([function(x), function(x)])
    streams = [torch.cuda.Stream() for _ in graphs]
    torch.cuda.synchronize()
    for _ in range(20):
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        function(x)
    torch.cuda.synchronize()
    assert all(torch.equal(out, expected) for pair in outputs for out in pair)


@pytest.mark.gpu
@on_a_gpu
def test_launches_of_a_graph_share_words_and_graphs_do_not():
    """Else those that are laid in for graphs would soon be used up, and every launch would have to write its zeros."""
    eager = block_mailbox.mailbox(DEVICE, 128, "test").data_ptr()
    found = []
    for _ in range(3):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.zeros(1, device=DEVICE)
            found.append({block_mailbox.mailbox(DEVICE, 128, "test").data_ptr() for _ in range(5)})
    assert all(len(addresses) == 1 for addresses in found)
    assert len({eager}.union(*found)) == 4
    assert block_mailbox.mailbox(DEVICE, 128, "test").data_ptr() == eager
    assert block_mailbox.mailbox(DEVICE, 128, "another").data_ptr() != eager


@pytest.mark.gpu
@on_a_gpu
def test_many_times_in_many_shapes(bind):
    """A block that waits for one that never comes hangs here."""
    shapes = [(1, 262144), (8, 151_936), (64, 262144), (3, 524_288), (700, 50257), (4096, 65537)]
    inputs = [torch.randn(m, n, device=DEVICE, dtype=torch.bfloat16) for m, n in shapes]
    functions = [bind(x) for x in inputs]
    expected = [function(x) for function, x in zip(functions, inputs, strict=True)]
    for _ in range(50):
        for function, x, right in zip(functions, inputs, expected, strict=True):
            assert torch.equal(function(x), right)


class Slow(dict[Any, Any]):
    """A dictionary in which another thread can look something up before the first has changed it."""

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        time.sleep(0.01)
        return found


def test_threads_that_capture_graphs_at_the_same_time_get_different_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the launches of two graphs would take each other's results for their own."""
    cpu = torch.device("cpu")
    monkeypatch.setattr(block_mailbox, "_store", Slow({cpu: torch.zeros(4096, dtype=torch.int64)}))
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: block_mailbox._from_store(cpu, 16).data_ptr(), range(16)))
    assert len(set(taken)) == 16
