"""What is done about the memory of a capture that fails, with a stand-in for torch's CUDA graphs."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from kbench.measure.machine.capture import captured


class Graph:
    def __init__(self, fails: bool, empty: bool = False, ended: bool = False) -> None:
        self.fails, self.empty, self.ended = fails, empty, ended

    def pool(self) -> tuple[int, int]:
        if not self.ended:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return 0, 7

    def capture_begin(self, pool: tuple[int, int], capture_error_mode: str) -> None: ...

    def capture_end(self) -> None:
        if self.fails:
            raise RuntimeError("operation failed due to a previous error during capture")
        if self.empty:
            warnings.warn("The CUDA Graph is empty. This usually means ...", stacklevel=1)


class Healing(Graph):
    """A graph in which kbench captures nothing."""

    def __init__(self, said: list[Any]) -> None:
        super().__init__(fails=False)
        self.said = said

    def capture_begin(self, capture_error_mode: str) -> None:  # type: ignore[override]
        self.said.append("begin")

    def capture_end(self) -> None:
        self.said.append("end")


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What torch was told of pools."""
    said: list[Any] = []
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 7))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Healing(said))
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(
            torch._C, name, lambda device, pool, name=name: said.append((name, device, pool)), raising=False
        )
    return said


def capture(fails: bool, error: Exception | None = None) -> None:
    with captured(Graph(fails)):  # type: ignore[arg-type]
        if error:
            raise error


ALL = [("_cuda_endAllocateToPool", 1, (0, 7)), ("_cuda_releasePool", 1, (0, 7)), "begin", "end"]
"""torch's generator takes a capture for ended only when another one has ended well."""


def test_a_capture_that_ends_well_keeps_its_memory(released: list[Any]) -> None:
    capture(fails=False)
    with pytest.raises(ValueError, match="of the call"):
        capture(fails=False, error=ValueError("of the call"))
    assert not released, "the graph gives it back itself"


@pytest.mark.parametrize("version", ["2.8.0", "2.13.1"])
def test_memory_of_a_capture_that_fails_is_given_back(
    released: list[Any], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(RuntimeError, match="previous error"):
        capture(fails=True)
    assert released == ALL
    with pytest.raises(ValueError, match="of the call"):
        capture(fails=True, error=ValueError("of the call"))
    assert released == ALL * 2


@pytest.mark.parametrize("version", ["2.14.0.dev20261001+cu130", "3.0.0"])
def test_memory_is_not_given_back_twice(released: list[Any], monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(RuntimeError, match="previous error"):
        capture(fails=True)
    assert not released


def test_memory_of_a_graph_that_cannot_be_made_ready_is_given_back_by_the_graph(
    released: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its capture has ended well. To give its memory back twice would end the process."""
    monkeypatch.setattr(torch, "__version__", "2.11.0")
    with pytest.raises(RuntimeError, match="previous error"), captured(Graph(fails=True, ended=True)):  # type: ignore[arg-type]
        pass
    assert released == ["begin", "end"]
