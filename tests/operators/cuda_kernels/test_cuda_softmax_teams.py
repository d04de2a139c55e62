"""The CUDA kernel of softmax, on a GPU: rows that blocks anywhere on the device share, as a team."""

from __future__ import annotations

import pytest
import torch
from cuda_matrices import DEVICE, DTYPES, SOFTMAX, randn, wrong
from torch import Tensor

from kbench.contract.provider import Unsupported
from kbench.operators.softmax import providers_cuda as softmax_cuda
from kbench.results.case import Case


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_few_rows_that_blocks_anywhere_share(gpu: None, dtype: str) -> None:
    """From one row to more than are shared so, and from the shortest to longer ones than all blocks together hold, at once and
    one after the other; one shape after another on the same words."""
    faults = []
    for M, N in [
        (1, 98_305),
        (1, 196_609),
        (2, 262_144),
        (3, 250_001),
        (5, 262_149),
        (8, 393_216),
        (8, 393_217),
        (9, 262_144),
        (16, 262_144),
        (21, 200_001),
        (32, 262_144),
    ]:
        faults += wrong(SOFTMAX, "cuda", randn(M, N, dtype), "random")
    for M, N in [
        (1, 64 * 16_384),
        (1, 64 * 16_384 + 1),
        (1, 3_000_001),
        (1, 5_000_001),
        (2, 3_000_001),
        (7, 1_500_000),
        (32, 1_100_001),
        (33, 1_100_001),
    ]:
        x = randn(M, N, dtype)
        faults += wrong(SOFTMAX, "cuda", x, "random")
        x[:, : N - 7] = -float("inf")
        faults += wrong(SOFTMAX, "cuda", x, "-inf but for the last seven")
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_teams_of_any_size(gpu: None, dtype: str) -> None:
    """One size after another on the same words. A team that fits is right, also with slices that are empty, or that hold only
    -inf or a NaN. A team that cannot fit is declined."""
    device = torch.cuda.get_device_properties(DEVICE)
    faults = []
    for M, N in [(1, 5), (2, 781), (1, 50257), (3, 65536), (1, 128256), (4, 131073), (1, 262144), (9, 65536)]:
        x, special = randn(M, N, dtype), randn(M, N, dtype)
        special[:, : N - 2] = -float("inf")
        special[M // 2, N // 2] = float("nan")
        vector = 16 // x.element_size()
        for team in (2, 31, 33, 64, 128, 300, 512):
            for packs in (None, 1, 2, 4, 8):
                ways = {"team": team} | ({"packs": packs} if packs else {})
                holds = (packs or 32 // vector) * vector  # elements of a thread, at most
                slice_ = -(-N // team)
                try:
                    faults += wrong(SOFTMAX, "cuda", x, "random", **ways)
                    faults += wrong(SOFTMAX, "cuda", special, "-inf but for two, and a NaN", **ways)
                    held = True
                except Unsupported:
                    held = False
                if M * team > 512 or holds > 32 or slice_ > 1024 * holds:
                    assert not held, (dtype, M, N, ways)
                elif M * team <= device.multi_processor_count and slice_ <= 512 * holds:
                    assert held, (dtype, M, N, ways)
    assert not faults


@pytest.mark.gpu
def test_teams_that_cannot_be_are_declined_with_the_reason(gpu: None) -> None:
    def declined(x: Tensor, reason: str, **ways: int) -> None:
        with pytest.raises(Unsupported, match=reason):
            wrong(SOFTMAX, "cuda", x, "random", **ways)

    declined(
        randn(9, 65536, "float32"), "team=64 needs 576 blocks for M=9; one launch of teams has at most 512", team=64
    )
    reason = "team=2, packs=1 cannot share rows of N=65536 for M=1: a block holds at most 4096 elements"
    declined(randn(1, 65536, "float32"), reason, team=2, packs=1)
    declined(randn(1, 65536, "bfloat16"), "packs=8 with `team` is for float32", team=16, packs=8)
    apart = randn(2, 65537, "float32")[:, 1:]
    declined(apart, "`team` needs rows of x and y that are equally far beyond a multiple of 16 bytes", team=16)
    x, kernel = randn(1, 65536, "float32"), softmax_cuda.SOURCE.kernel("best", team=16)
    with pytest.raises(Unsupported, match="the mailbox is too small"):
        kernel((x,), (torch.empty_like(x),), torch.zeros(1023, dtype=torch.int64, device=DEVICE))
    with pytest.raises(Unsupported, match="`team` needs a mailbox and an NVIDIA GPU"):
        kernel((x,), (torch.empty_like(x),))


@pytest.mark.gpu
def test_teams_are_right_in_replays_of_a_graph(gpu: None) -> None:
    """Each launch inverts the marks of the words; two sizes of teams in one graph have marks of their own."""
    x = randn(1, 128256, "float32")
    providers = [
        SOFTMAX.providers["cuda"].bind(Case("softmax", {"M": 1, "N": 128256}, "float32"), ways)
        for ways in ({"team": 32}, {"team": 128, "packs": 1}, {"team": 33})
    ]
    for provider in providers:
        provider(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [provider(x) for provider in providers]
    for _ in range(5):
        x.copy_(randn(1, 128256, "float32"))
        graph.replay()
        torch.cuda.synchronize()
        expected = x.double().softmax(-1)
        for y in results:
            assert torch.allclose(y.double(), expected, rtol=1e-5, atol=1e-9)
