"""How Triton kernels are launched: the launches of softmax and cross-entropy hold every lane of a row, programs wait only where
they can, and a launch is decided once for each shape. Without Triton's compiler."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.kernels import triton_launch
from kbench.kernels.triton_launch import KeptLaunch, Launch, Launcher, Matrix, Processors, Words
from kbench.operators.cross_entropy.providers_triton import divide_both, divide_losses
from kbench.operators.softmax.providers_triton import divide, divide_gradients

ROWS = [1, 64, 1000, 2**17]
LENGTHS = [1, 40, 63, 64, 65, 500, 1000, 1024, 4095, 4096, 4097, 4100, 8192, 8200, 12345, 16384, 32000, 32768, 50257]
LENGTHS += [65536, 128256, 131072, 151936, 262144, 2**20]


def matrix(M: int, N: int, itemsize: int = 2, processors: int = 132, vector: int | None = None) -> Matrix:
    """`vector` is shorter for matrices whose rows begin at different distances from a multiple of 16 bytes."""
    vector = vector or 16 // itemsize
    if N < triton_launch.SHORTEST_ODD_ROW:
        vector = next(v for v in (8, 4, 2, 1) if v <= vector and N % v == 0)
    device = Processors(multiprocessors=processors, waiting=processors)
    return Matrix(M, N, itemsize, vector, N % vector != 0, device)


@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("processors", [132, 16])
@pytest.mark.parametrize("vector", [1, 4, None])
def test_slices_and_blocks_hold_every_lane_of_a_row(itemsize: int, processors: int, vector: int | None) -> None:
    for M, N in product(ROWS, LENGTHS):
        x = matrix(M, N, itemsize, processors, vector)
        forward, moved = divide(x)
        ways = [(divide_gradients(x), x, True), (divide_both(x, False), x, True), (divide_losses(x), x, False)]
        ways += [(forward, moved, True)] if forward else []
        for division, seen, waits in ways:
            where = f"{M} x {N}: {division}"
            assert division.block & (division.block - 1) == 0 and division.block >= seen.vector, where
            lanes = (division.blocks + division.step * division.loops) * division.block
            assert lanes >= min(division.span, seen.lanes), where
            assert division.span * (division.slices - 1) < seen.lanes <= division.span * division.slices, where
            assert division.span % seen.vector == 0, where
            assert division.slices == 1 or division.together == 1, where
            if waits:  # a multiprocessor may hold no more than 256 threads, if each takes as many registers as it can
                assert division.slices <= processors * max(1, 256 // (32 * division.warps)), where


def test_few_long_rows_are_spread_over_the_device_and_short_ones_are_not() -> None:
    for divided in (lambda x: divide(x)[0], divide_gradients, divide_losses, lambda x: divide_both(x, False)):
        for N, spread in ((128256, True), (1024, False)):
            division = divided(matrix(1 if spread else 64, N))
            assert division and (division.slices >= 16) is spread


def test_programs_wait_only_where_they_can() -> None:
    """Without teams a row has one program."""
    for M, N in product(ROWS, LENGTHS):
        x = matrix(M, N)
        alone = x._replace(processors=x.processors._replace(waiting=0))
        divisions = [divide(alone)[0], divide_gradients(alone), divide_both(alone, False)]
        assert {division.slices for division in divisions if division} == {1}


def test_cuda_and_triton_agree_on_which_matrices_are_large() -> None:
    headers = Path(triton_launch.__file__).parent.glob("*.cuh")
    numbers = [number for header in headers for number in re.findall(r"kKeptCaches = (\d+);", header.read_text())]
    assert numbers == [str(triton_launch.KEPT_CACHES)]


class Kernel:
    """A kernel of Triton's, which is also what it compiles: it notes how it is launched."""

    function, packed_metadata = "handle", "metadata"

    def __init__(self) -> None:
        self.first: list[Any] = []
        self.again: list[Any] = []
        names = {"x": None, "N": None, "BLOCK": None, "PHASE": 0}
        self.arg_names = [*names]
        self.params = [SimpleNamespace(name=name, default=default) for name, default in names.items()]

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, **keywords: Any) -> Any:
            self.first.append((grid, arguments[1:], keywords))
            return self

        return launch

    def run(self, *arguments: Any) -> None:
        self.again.append(arguments)


def test_a_launch_is_decided_once_for_each_shape_stride_dtype_and_alignment(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(active=SimpleNamespace(get_current_stream=lambda device: 7))
    monkeypatch.setattr("triton.runtime.driver", stream)
    kernel, memory = Kernel(), torch.empty(1024)

    def choose(x: torch.Tensor, block: int = 64) -> Launch:
        return Launch(kernel, x.shape[0], (x.shape[1],), {"BLOCK": block}, {"num_warps": 2})

    launcher, x = Launcher(choose), memory[:100].view(10, 10)
    launcher((), (x,))
    launcher((), (x,))
    assert kernel.first == [((10,), (10,), {"BLOCK": 64, "num_warps": 2})]
    no_hooks, defaults = (None, None, None), (0,)
    again = (10, 1, 1, 7, "handle", "metadata", *no_hooks, x.data_ptr(), 10, 64, *defaults)
    assert kernel.again == [again]
    others = [x[:9], memory[:200].view(10, 20)[:, :10], x.to(torch.float64), memory[1:101].view(10, 10)]
    for tensor in others:
        launcher((), (tensor,))
    launcher((), (x,), 128)
    assert len(kernel.first) == 2 + len(others)
    launcher((), (memory[4:104].view(10, 10),))
    assert len(kernel.first) == 2 + len(others) and len(kernel.again) == 2


@pytest.mark.parametrize("programs, options", [
    (132, {"launch_cooperative_grid": True}), (133, {"TICKETS": True}),
])  # fmt: skip
def test_programs_that_wait_start_together_or_take_tickets(
    programs: int, options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a program that others wait for might find no place."""
    monkeypatch.setattr(triton_launch, "processors_of", lambda device: Processors())
    monkeypatch.setattr("triton.runtime.driver", SimpleNamespace(active=SimpleNamespace(get_current_stream=None)))
    kernel: Any = Kernel()
    kernel.arg_names = ["x", "words", "TICKETS", "PHASE"]
    monkeypatch.setattr(triton_launch, "mailbox", lambda *words: "a mailbox")
    on_device: Any = SimpleNamespace(device=torch.device("cuda", 0))
    KeptLaunch(Launch(kernel, programs, (), {}, {}, Words(1, ())))(on_device)
    assert kernel.first == [((programs,), ("a mailbox",), options)]


class Slow(dict[Any, Any]):
    """A dictionary in which another thread can look something up before the first has changed it."""

    def get(self, key: Any, default: Any = None) -> Any:
        value = super().get(key, default)
        time.sleep(0.01)
        return value


def test_threads_that_capture_graphs_at_the_same_time_get_different_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the launches of two graphs would take each other's results for their own."""
    cpu = torch.device("cpu")
    monkeypatch.setattr(triton_launch, "_store", Slow({cpu: torch.zeros(4096, dtype=torch.int64)}))
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda _: triton_launch._from_store(cpu, 16).data_ptr(), range(16)))
    assert len(set(taken)) == 16


def test_launches_that_lay_out_words_differently_share_no_mailbox() -> None:
    """A launch between two others, with another number of slices of a row, would leave the second one waiting."""
    cpu = torch.device("cpu")
    one, other, again = (triton_launch.mailbox(cpu, 40, ("slices", slices)) for slices in (5, 4, 5))
    assert one.data_ptr() == again.data_ptr() != other.data_ptr()
