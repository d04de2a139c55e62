"""Every dtype of an input or an output: 8-bit floats, integers and bool are compared, restored and judged as they should be."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kbench.measure.correctness.check import changed_input, equal
from kbench.measure.machine.device import Device, poison_value
from kbench.results.case import FLOATING

DTYPES = ["float32", "float8_e4m3fn", "int64", "bool"]


def of(dtype: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype)
    return found


def sample(dtype: str) -> Tensor:
    """Values that every dtype but bool holds."""
    return torch.tensor([0, 1, 0, 2, 3, 1]).to(of(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_and_changed(dtype: str) -> None:
    x = sample(dtype)
    other = x.clone()
    other[2] = 1
    assert equal(x, x.clone()) and not equal(x, other)
    assert equal(x[::2], x[::2].clone()) and equal(x[:0], x[:0])
    assert changed_input(["x"], [other], [x]) == "changed its input x in place"
    assert changed_input(["x"], [other], [x], {"x"}) is None
    if dtype in FLOATING:
        other[:] = math.nan
        assert equal(other, other.clone()) and not equal(x, other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_poison_is_told_from_values(dtype: str) -> None:
    x = sample(dtype)
    first, second = torch.full_like(x, poison_value(x.dtype)), torch.full_like(x, poison_value(x.dtype, again=True))
    assert not equal(first, x) and not equal(second, x)
    assert dtype in FLOATING or not equal(first, second)
    for again in (False, True):
        Device().poison((3, 0, 2), of(dtype), again)
        Device().poison((3, 2), of(dtype), again)
