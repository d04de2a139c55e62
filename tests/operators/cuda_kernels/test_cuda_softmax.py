"""The CUDA kernels of softmax, on a GPU: every length and way to share a row, views, special values, and the backward pass."""

from __future__ import annotations

import pytest
import torch
from cuda_checks import DTYPES, LADDER, SOFTMAX, randn, wrong
from judged_outputs import judged

from kbench.contract.provider import Unsupported

# fmt: off
BOUNDARIES = [
    1, 2, 3, 4, 5, 8, 9, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 264, 511, 512, 513, 520, 640, 781, 1000,
    1023, 1024, 1025, 1032, 2047, 2048, 2049, 2056, 3200, 4096, 4097, 8191, 8192, 8193, 8200, 12672, 16384, 16385, 16392,
    24576, 24577, 32767, 32768, 32769, 32776, 50000, 65536, 65537, 65544, 131072, 131073, 151936, 262143, 262144, 300008,
]
# fmt: on
"""Both sides of every line of the dispatch tables, and N between them."""


def row_counts(N: int, dtype: torch.dtype) -> list[int]:
    """Few rows and many are dispatched differently, and so are matrices of up to 8 MiB and larger ones. 19 and 67 rows leave
    the last block of every kernel partly empty."""
    many = 2**23 // (N * dtype.itemsize) + 1
    return [1, 19, 67, *([many] if N >= 512 else [])] if N < 10_000 else [3, many]


LENGTHS = dict.fromkeys(LADDER, (1, 5, 64, 781, 4096, 20000)) | {
    "cuda": (1, 5, 8, 64, 90, 100, 160, 300, 512, 781, 1000, 1400, 4096, 20000, 70000, 140001, 200_001)
}
"""N for the tests of views and special values: a length for each kernel behind `cuda`."""


def shapes(provider: str, few: int) -> list[tuple[int, int]]:
    """M and N for these tests: short rows have other kernels where there are many."""
    return [(M, N) for N in LENGTHS[provider] for M in ((few, 67) if N <= 1500 else (few,))]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_is_right_on_both_sides_of_every_dispatch_line(gpu: None, dtype: torch.dtype) -> None:
    """The dtypes of 16 bits have kernels from the same templates, and share the lengths."""
    faults = []
    first, step = {torch.float32: (0, 1), torch.float16: (0, 2), torch.bfloat16: (1, 2)}[dtype]
    for N in BOUNDARIES[first::step]:
        for M in row_counts(N, dtype):
            faults += wrong(SOFTMAX, "cuda", randn(M, N, dtype=dtype), "random")
    assert not faults


VIEWED = [(provider, dtype) for provider in (*LADDER, "cuda") for dtype in (torch.float32, torch.bfloat16)]


@pytest.mark.gpu
@pytest.mark.parametrize(("provider", "dtype"), VIEWED)
def test_softmax_of_views(gpu: None, provider: str, dtype: torch.dtype) -> None:
    faults = []
    for M, N in shapes(provider, 5):
        for padding, offset in [(1, 0), (1, 1), (3, 2), (8, 0), (8, 8), (8, 4), (16, 1)]:
            wide = randn(M, N + padding, dtype=dtype)
            faults += wrong(SOFTMAX, provider, wide[:, offset : offset + N], f"columns {offset}: of N + {padding}")
        faults += wrong(SOFTMAX, provider, randn(1, N, dtype=dtype).expand(7, N), "the same row seven times (stride 0)")
        faults += wrong(SOFTMAX, provider, randn(14, N, dtype=dtype)[::2], "every second row")
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize(("provider", "dtype"), VIEWED)
def test_softmax_of_special_values(gpu: None, provider: str, dtype: torch.dtype) -> None:
    """Runs of -inf that fill a thread's, a warp's and a first tile's share of a row, and NaN and inf at either end."""
    inf, nan = float("inf"), float("nan")
    faults = []
    for M, N in shapes(provider, 12):
        x = randn(M, N, dtype=dtype)
        x[0], x[1, : N - 1], x[2, 1:], x[3, : N // 2], x[4, N // 2 :], x[5, N // 3 :] = (-inf,) * 6
        x[6, 0], x[7, N - 1], x[8, 0], x[9, N - 1] = nan, nan, inf, inf
        x[10] = -inf
        x[10, N // 2] = nan
        faults += wrong(SOFTMAX, provider, x, "a special value in each row")
        faults += wrong(SOFTMAX, provider, x[4:5].expand(3, N), "-inf in the second half of few rows")
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize("packs", [1, 2, 3, 4, 8, 12])
def test_softmax_in_other_ways_to_share_a_row(gpu: None, packs: int) -> None:
    """Any number of blocks, any accesses a thread. 128 threads a block are always to be had, more than 1024 never: a row
    that the first hold is computed, one that the second do not hold is declined."""
    largest = 16 if torch.cuda.get_device_capability()[0] in (9, 10) else 1
    faults = []
    for dtype in (torch.float32, torch.bfloat16):
        for blocks in (1, 2, 3, 5, 8, 16):
            for N in (1, 781, 4096, 10000, 40001, 151936, 262144):
                x = randn(5, N, dtype=dtype)
                a_thread_each = packs * blocks * 16  # bytes of a row that one thread of each block holds
                try:
                    faults += wrong(SOFTMAX, "cuda", x, "random", packs=packs, blocks=blocks)
                    computed = True
                except Unsupported as refusal:
                    computed = False
                    assert "there is no such kernel, or it cannot hold a row" in str(refusal)
                needed = N * x.element_size()
                no_kernel = packs == 3 or (packs == 12 and dtype is torch.float32)
                if no_kernel or blocks > largest or needed > 1024 * a_thread_each:
                    assert not computed, (dtype, blocks, N)
                elif needed <= 128 * a_thread_each:
                    assert computed, (dtype, blocks, N)
    assert not faults


SHAPES = [(5, 1), (3, 7), (70, 64), (5000, 129), (300, 1000), (2500, 1024), (9, 4097), (3000, 8192), (40, 32000)]
SHAPES += [(700, 16384), (33, 50257), (200, 131072), (5, 151936), (2, 262143), (20, 262144), (2, 1_000_000)]


@pytest.mark.gpu
@pytest.mark.parametrize("M, N", SHAPES)
def test_gradients_are_right(gpu: None, M: int, N: int) -> None:
    for dtype in ("float32", "bfloat16"):
        assert judged(SOFTMAX.case(dtype, M=M, N=N, mode="backward"), "cuda") is None, dtype
