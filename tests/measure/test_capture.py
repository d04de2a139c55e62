"""What is done about the memory of a capture that fails, with a stand-in for torch's CUDA graphs."""

from __future__ import annotations

import pytest
import torch

from kbench.measure.machine.capture import captured


class Graph:
    def __init__(self, fails: bool) -> None:
        self.fails = fails

    def capture_begin(self, pool: tuple[int, int], capture_error_mode: str) -> None: ...

    def capture_end(self) -> None:
        if self.fails:
            raise RuntimeError("operation failed due to a previous error during capture")


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, tuple[int, int]]]:
    """What torch was told of pools."""
    said: list[tuple[str, int, tuple[int, int]]] = []
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 7))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(
            torch._C, name, lambda device, pool, name=name: said.append((name, device, pool)), raising=False
        )
    return said


def capture(fails: bool, error: Exception | None = None) -> None:
    with captured(Graph(fails)):  # type: ignore[arg-type]
        if error:
            raise error


BOTH = [("_cuda_endAllocateToPool", 1, (0, 7)), ("_cuda_releasePool", 1, (0, 7))]


def test_a_capture_that_ends_well_keeps_its_memory(released: list[object]) -> None:
    capture(fails=False)
    with pytest.raises(ValueError, match="of the call"):
        capture(fails=False, error=ValueError("of the call"))
    assert not released, "the graph gives it back itself"


@pytest.mark.parametrize("version", ["2.8.0", "2.11.0+cu130", "2.13.1"])
def test_memory_of_a_capture_that_fails_is_given_back(
    released: list[object], monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(RuntimeError, match="previous error"):
        capture(fails=True)
    assert released == BOTH
    with pytest.raises(ValueError, match="of the call"):
        capture(fails=True, error=ValueError("of the call"))
    assert released == BOTH * 2


@pytest.mark.parametrize("version", ["2.14.0.dev20261001+cu130", "2.14.0", "3.0.0"])
def test_memory_is_not_given_back_twice(released: list[object], monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(RuntimeError, match="previous error"):
        capture(fails=True)
    assert not released


def test_a_torch_that_has_ended_the_allocations_itself(released: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: int, pool: tuple[int, int]) -> None:
        raise RuntimeError("not currently recording to mempool_id")

    monkeypatch.setattr(torch, "__version__", "2.12.0")
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", refuse, raising=False)
    with pytest.raises(RuntimeError, match="previous error"):
        capture(fails=True)
    assert released == BOTH[1:]
