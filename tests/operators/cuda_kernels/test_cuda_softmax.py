"""The CUDA kernels of softmax, on a GPU: every length, views and special values."""

from __future__ import annotations

import pytest
import torch
from cuda_matrices import DEVICE, DTYPES, LADDER, SOFTMAX, randn, wrong

BOUNDARIES = [
    *(
        1,
        2,
        3,
        4,
        5,
        8,
        9,
        31,
        32,
        33,
        63,
        64,
        65,
        127,
        128,
        129,
        255,
        256,
        257,
        264,
        511,
        512,
        513,
        520,
        640,
        781,
        1000,
    ),
    *(
        1023,
        1024,
        1025,
        1032,
        2047,
        2048,
        2049,
        2056,
        3200,
        4096,
        4097,
        8191,
        8192,
        8193,
        8200,
        12672,
        16384,
        16385,
        16392,
    ),
    *(
        24576,
        24577,
        32767,
        32768,
        32769,
        32776,
        50000,
        65536,
        65537,
        65544,
        131072,
        131073,
        151936,
        262143,
        262144,
        300008,
    ),
]
"""Both sides of every line of the dispatch tables, and N between them."""


def row_counts(N: int, dtype: str) -> list[int]:
    """Few rows and many are dispatched differently, and so are matrices of up to 8 MiB and larger ones. 19 and 67 rows leave
    the last block of every kernel partly empty."""
    many = 2**23 // (N * getattr(torch, dtype).itemsize) + 1
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
def test_softmax_is_right_on_both_sides_of_every_dispatch_line(gpu: None, dtype: str) -> None:
    faults = []
    for N in BOUNDARIES:
        for M in row_counts(N, dtype):
            faults += wrong(SOFTMAX, "cuda", randn(M, N, dtype), "random")
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", LADDER)
def test_the_ladder_is_right(gpu: None, provider: str, dtype: str) -> None:
    faults = []
    for M, N in [(1, 1), (257, 2), (300, 31), (5, 33), (1823, 781), (3, 1024), (3, 1025), (2, 32768), (2, 70001)]:
        faults += wrong(SOFTMAX, provider, randn(M, N, dtype), "random")
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", [*LADDER, "cuda"])
def test_softmax_of_views(gpu: None, provider: str, dtype: str) -> None:
    faults = []
    for M, N in shapes(provider, 5):
        for padding, offset in [(1, 0), (1, 1), (3, 2), (8, 0), (8, 8), (8, 4), (16, 1)]:
            wide = randn(M, N + padding, dtype)
            faults += wrong(SOFTMAX, provider, wide[:, offset : offset + N], f"columns {offset}: of N + {padding}")
        faults += wrong(SOFTMAX, provider, randn(1, N, dtype).expand(7, N), "the same row seven times (stride 0)")
        faults += wrong(SOFTMAX, provider, randn(14, N, dtype)[::2], "every second row")
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("N", [128, 2049, 4097, 131073])
def test_softmax_of_views_on_both_sides_of_2_20_elements(gpu: None, N: int, dtype: str) -> None:
    """Rows begin an element beyond those of the output, so an access is one element. Blocks share the rows of a matrix of up
    to 2**20 elements. In larger ones, a block has a row, or reads it twice."""
    faults = []
    for M in (1, 2**20 // N, 2**20 // N + 1):
        x = randn(M, N + 1, dtype)[:, 1 : 1 + N]
        assert x.data_ptr() % 16 == x.element_size() and x.stride() == (N + 1, 1)
        faults += wrong(SOFTMAX, "cuda", x, "columns 1: of N + 1")
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("provider", [*LADDER, "cuda"])
def test_softmax_of_special_values(gpu: None, provider: str, dtype: str) -> None:
    """Runs of -inf that fill a thread's, a warp's and a first tile's share of a row, and NaN and inf at either end."""
    inf, nan = float("inf"), float("nan")
    faults = []
    for M, N in shapes(provider, 3):
        for what, first, last, value in [
            ("all -inf", 0, N, -inf),
            ("-inf but the last", 0, N - 1, -inf),
            ("-inf but the first", 1, N, -inf),
            ("-inf first half", 0, N // 2, -inf),
            ("-inf second half", N // 2, N, -inf),
            ("NaN first", 0, 1, nan),
            ("NaN last", N - 1, N, nan),
            ("all NaN", 0, N, nan),
            ("+inf first", 0, 1, inf),
            ("+inf last", N - 1, N, inf),
        ]:
            x = randn(M, N, dtype)
            x[1, first:last] = value
            faults += wrong(SOFTMAX, provider, x, what)
        lonely = torch.full((M, N), -inf, device=DEVICE, dtype=getattr(torch, dtype))
        lonely[1, N // 2], lonely[2, N // 3] = nan, 1.0
        faults += wrong(SOFTMAX, provider, lonely, "-inf but one NaN, one number")
        faults += wrong(SOFTMAX, provider, randn(M, N, dtype) + 1e4, "large offset")
        if provider != "cuda-online":
            # It corrects its norm at every element of an ascending row, and the roundings add up: past the tolerance from
            # N of some thousands on. That is what the worklog's second step does; `kbench check` shows it.
            faults += wrong(SOFTMAX, provider, randn(3, N, dtype).sort(-1).values, "ascending")
        faults += wrong(SOFTMAX, provider, randn(3, N, dtype).sort(-1, descending=True).values, "descending")
        faults += wrong(SOFTMAX, provider, randn(M, N, dtype) * 8, "wide range")
    assert not faults
