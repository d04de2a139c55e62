"""The CUDA kernel of GELU, on a GPU: every 16-bit value and the extremes of float32."""

from __future__ import annotations

import pytest
import torch
from cuda_checks import DEVICE, GELU, wrong


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
