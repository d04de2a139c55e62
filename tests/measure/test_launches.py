"""What kbench makes of the nodes of a CUDA graph: the launches of a call."""

from __future__ import annotations

from typing import Any

import pytest

from kbench.launches.launched_call import MemoryOperation
from kbench.measure.launches import recorder
from kbench.measure.launches.graph_nodes import KernelNode
from kbench.measure.launches.machine_code import MachineCode, TritonKernels
from kbench.measure.launches.recorder import LaunchRecorder, Recorded, launched_call
from kbench.measure.machine.device import Device


class Unknown(MachineCode):
    """Knows only names."""

    def __init__(self) -> None:
        super().__init__(TritonKernels())

    def of(self, function: int, symbol: str) -> tuple[str, str]:
        return symbol, "test"


def node(symbol: str = "k", grid: int = 1, function: int = 1) -> KernelNode:
    return KernelNode(function, symbol, (grid, 1, 1), (128, 1, 1), 0, 40, 0, 16, 8)


def test_launches_that_are_alike_are_counted() -> None:
    nodes = [
        MemoryOperation("memset", 64),
        node(),
        node(grid=2),
        node(),
        node("other", function=2),
        MemoryOperation("memset", 64),
    ]
    call = launched_call(nodes, Unknown())
    assert [(each.kernel.symbol, each.grid[0], each.times) for each in call.launches] == [
        ("k", 1, 2), ("k", 2, 1), ("other", 1, 1),
    ]  # fmt: skip
    assert call.memory == (MemoryOperation("memset", 64, 2),) and call.kernels == 4


# -- the driver


class Graph:
    """A captured graph."""

    def raw_cuda_graph(self) -> int:
        return 1

    def reset(self) -> None:
        pass


def refuse(error: Exception) -> Any:
    def fail(*_: object) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [RuntimeError("not permitted\nmore"), ValueError(), AttributeError("no such function")]
)
def test_a_capture_or_a_graph_that_fails_costs_only_the_kernels(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    device = Device()
    made = LaunchRecorder(device)
    vars(made)["_stream"] = None  # it would ask a device for one
    monkeypatch.setattr(recorder, "peak_bytes", lambda prepare: 4096)
    monkeypatch.setattr(recorder, "capture", refuse(error))
    first = str(error).partition("\n")[0] or type(error).__name__
    assert made.record(lambda: None) == Recorded(  # type: ignore[arg-type,return-value]
        None, 4096, f"the call cannot be captured in a CUDA graph: {first}"
    )
    monkeypatch.setattr(recorder, "capture", lambda *_: Graph())
    vars(made)["_driver"] = None
    monkeypatch.setattr(recorder, "read_graph", refuse(error))
    assert made.record(lambda: None) == Recorded(None, 4096, first)  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(recorder, "capture", refuse(error))
    monkeypatch.setattr(device, "healthy", lambda: False)
    with pytest.raises(RuntimeError, match="the call cannot be captured"):  # the worker gives the device up
        made.record(lambda: None)  # type: ignore[arg-type,return-value]
