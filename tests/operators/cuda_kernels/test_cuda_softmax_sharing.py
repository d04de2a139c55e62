"""The CUDA kernel of softmax, on a GPU: rows that the blocks of a cluster share."""

from __future__ import annotations

import pytest
import torch
from cuda_matrices import DTYPES, SOFTMAX, randn, wrong

from kbench.contract.provider import Unsupported
from kbench.operators.softmax import providers_cuda as softmax_cuda

ONLY_WIDE = "packs=16 is for float32 rows that begin and end at multiples of 16 bytes"


@pytest.mark.gpu
@pytest.mark.parametrize("packs", softmax_cuda.PACKS)
def test_softmax_in_other_ways_to_share_a_row(gpu: None, packs: int) -> None:
    """Any number of blocks, any accesses a thread. 128 threads a block are always to be had, more than 1024 never: a row
    that the first hold is computed, one that the second do not hold is declined."""
    largest = 16 if torch.cuda.get_device_capability()[0] in (9, 10) else 1
    faults = []
    for dtype in DTYPES:
        for blocks in (1, 2, 3, 5, 8, 16):
            for N in (1, 781, 4096, 10000, 40001, 151936, 262144):
                x = randn(5, N, dtype)
                if packs == 16 and (dtype != "float32" or N % 4):
                    with pytest.raises(Unsupported, match=ONLY_WIDE):
                        wrong(SOFTMAX, "cuda", x, "random", packs=packs, blocks=blocks)
                    continue
                a_thread_each = packs * blocks * 16  # bytes of a row that one thread of each block holds
                try:
                    faults += wrong(SOFTMAX, "cuda", x, "random", packs=packs, blocks=blocks)
                    held = True
                except Unsupported:
                    held = False
                needed = N * x.element_size()
                if blocks > largest or needed > 1024 * a_thread_each:
                    assert not held, (dtype, blocks, N)
                elif needed <= 128 * a_thread_each:
                    assert held, (dtype, blocks, N)
    assert not faults


@pytest.mark.gpu
def test_softmax_with_16_accesses_a_thread(gpu: None) -> None:
    """Up to 1 MiB in 16 blocks, of any distance between rows that keeps them at multiples of 16 bytes."""
    if torch.cuda.get_device_capability()[0] not in (9, 10):
        pytest.skip("the device has no clusters of 16 blocks")
    ways = {"packs": 16, "blocks": 16}
    faults = []
    for N in (4, 196612, 200704, 229380, 262140, 262144):
        x = randn(5, N, "float32")
        faults += wrong(SOFTMAX, "cuda", x, "random", **ways)
        faults += wrong(SOFTMAX, "cuda", randn(5, N + 8, "float32")[:, 4 : 4 + N], "columns 4: of N + 8", **ways)
        x[0], x[1, : N - 1], x[2, N // 2] = -float("inf"), -float("inf"), float("nan")
        faults += wrong(SOFTMAX, "cuda", x, "-inf, -inf but for the last, one NaN", **ways)
    assert not faults
    with pytest.raises(Unsupported, match="packs=16, blocks=16 cannot hold a row of N=262148 on this device"):
        wrong(SOFTMAX, "cuda", randn(5, 262148, "float32"), "random", **ways)


@pytest.mark.gpu
@pytest.mark.parametrize("M", [1, 3, 64, 300])
def test_softmax_of_rows_that_several_blocks_share(gpu: None, M: int) -> None:
    """From few rows in wide clusters to many: a part of -inf, or an empty part, must not poison its row."""
    faults = []
    for dtype in DTYPES:
        for N in (8200, 16384, 32768, 50257, 131072, 131073, 151936, 262144):
            x = randn(M, N, dtype)
            faults += wrong(SOFTMAX, "cuda", x, "random")
            x[:, N // 3 :] = -float("inf")
            faults += wrong(SOFTMAX, "cuda", x, "-inf from a third on")
            x[:, : N - 1] = -float("inf")
            x[:, N - 1] = 1.0
            faults += wrong(SOFTMAX, "cuda", x, "-inf but for the last")
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize("M", [2, 4, 5, 7, 8, 9, 12, 15, 16, 22, 24, 33, 64])
def test_softmax_of_few_long_rows(gpu: None, M: int) -> None:
    """Where the device is not full, how a row is shared hangs on how many there are."""
    faults = []
    for dtype in DTYPES:
        for N in (9_000, 24_577, 49_160, 65_536, 98_304, 98_305, 131_072, 151_936, 196_608, 196_609, 262_144, 262_147):
            x = randn(M, N, dtype)
            faults += wrong(SOFTMAX, "cuda", x, "random")
            x[:, : N - 9] = -float("inf")
            faults += wrong(SOFTMAX, "cuda", x, "-inf but for the last nine")
    assert not faults
