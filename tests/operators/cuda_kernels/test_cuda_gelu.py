"""The CUDA kernel of GELU, on a GPU: views, every 16-bit value and the extremes of float32."""

from __future__ import annotations

import pytest
import torch
from cuda_checks import DEVICE, DTYPES, GELU, randn, wrong


@pytest.mark.gpu
@pytest.mark.parametrize("approximate", ["tanh", "none"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gelu_is_right(gpu: None, dtype: torch.dtype, approximate: str) -> None:
    faults = []
    for M, N in [(1, 1), (1, 3), (7, 1), (5, 8), (4097, 311), (3, 100_003), (64, 12672)]:
        faults += wrong(GELU, "cuda", randn(M, N, dtype=dtype) * 3, "dense", approximate=approximate)
        for padding, offset in [(1, 0), (1, 1), (8, 0), (8, 8), (8, 3)]:
            x = randn(M, N + padding, dtype=dtype)[:, offset : offset + N]
            faults += wrong(GELU, "cuda", x, f"columns {offset}: of N + {padding}", approximate=approximate)
        faults += wrong(GELU, "cuda", randn(1, N, dtype=dtype).expand(5, N), "stride 0", approximate=approximate)
        shifted = randn(1, M * N + 1, dtype=dtype).flatten()[1:].view(M, N)
        faults += wrong(GELU, "cuda", shifted, "dense, one element beyond alignment", approximate=approximate)
    assert not faults


@pytest.mark.gpu
@pytest.mark.parametrize("approximate", ["tanh", "none"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gelu_of_every_16_bit_value(gpu: None, dtype: torch.dtype, approximate: str) -> None:
    """NaN, infinities and subnormals included."""
    bits = torch.arange(-(2**15), 2**15, device=DEVICE).to(torch.int16)
    assert not wrong(GELU, "cuda", bits.view(dtype)[None], "every value", approximate=approximate)


@pytest.mark.gpu
@pytest.mark.parametrize("approximate", ["tanh", "none"])
def test_gelu_of_float32_extremes(gpu: None, approximate: str) -> None:
    inf, nan, big, tiny = float("inf"), float("nan"), 3.4e38, 1e-40
    values = [0.0, -0.0, inf, -inf, nan, big, -big, tiny, -tiny, 1e13, -1e13, 1e3, -1e3, 13.0, -13.0, 5.5, -5.5, 1e-20]
    assert not wrong(GELU, "cuda", torch.tensor([values], device=DEVICE), "extremes", approximate=approximate)
    grid = torch.linspace(-12, 12, 2**22 + 1, device=DEVICE)[None]
    assert not wrong(GELU, "cuda", grid, "a dense grid", approximate=approximate)
