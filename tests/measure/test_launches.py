"""What kbench makes of the nodes of a CUDA graph: the launches of a call."""

from __future__ import annotations

from kbench.launches.launched_call import MemoryOperation
from kbench.measure.launches.graph_nodes import KernelNode
from kbench.measure.launches.machine_code import MachineCode, TritonKernels
from kbench.measure.launches.recorder import launched_call


class Unknown(MachineCode):
    """Knows only names."""

    def __init__(self) -> None:
        super().__init__(TritonKernels())

    def of(self, function: int, symbol: str) -> tuple[str, str]:
        return symbol, "test"


def node(symbol: str = "k", grid: int = 1, function: int = 1) -> KernelNode:
    return KernelNode(function, symbol, (grid, 1, 1), (128, 1, 1), 0, 40, 0, 16, 8)


def test_launches_that_are_alike_are_counted() -> None:
    memset = MemoryOperation("memset", 64)
    nodes = [memset, node(), node(grid=2), node(), node("other", function=2), memset]
    call = launched_call(nodes, Unknown())
    assert [(each.kernel.symbol, each.grid[0], each.times) for each in call.launches] == [
        ("k", 1, 2), ("k", 2, 1), ("other", 1, 1),
    ]  # fmt: skip
    assert call.memory == (MemoryOperation("memset", 64, 2),) and call.kernels == 4
