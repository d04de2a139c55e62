"""What kbench makes of the nodes of a CUDA graph: the launches of a call."""

from __future__ import annotations

from kbench.launches.launched_call import Kernel, KernelLaunch, MemoryOperation
from kbench.measure.launches.recorder import launched_call


def launch(symbol: str = "k", grid: int = 1) -> KernelLaunch:
    return KernelLaunch(Kernel(symbol, symbol, 40, 0, 16, symbol, "test"), (grid, 1, 1), (128, 1, 1), 0, 8)


def test_launches_that_are_alike_are_counted() -> None:
    memset = MemoryOperation("memset", 64)
    call = launched_call([memset, launch(), launch(grid=2), launch(), launch("other"), memset])
    assert [(each.kernel.symbol, each.grid[0], each.times) for each in call.launches] == [
        ("k", 1, 2), ("k", 2, 1), ("other", 1, 1),
    ]  # fmt: skip
    assert call.memory == (MemoryOperation("memset", 64, 2),) and call.kernels == 4
