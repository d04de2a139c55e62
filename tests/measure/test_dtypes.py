"""Every dtype of an input or an output: 8-bit floats, integers and bool are compared, restored and judged as they should be."""

from __future__ import annotations

import math

import pytest
import torch
from in_process import measured, said
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor as Declared
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


@pytest.mark.parametrize("layout", ["expanded", "kept"])
def test_what_a_fill_returns_is_copied(layout: str) -> None:
    """An expanded tensor cannot be written to. A tensor that the function keeps would change with the inputs."""
    kept = torch.randn(8, 8)

    def fill(case: object, draw: object) -> Tensor:
        return {"expanded": kept[:1].expand(8, 8), "kept": kept}[layout]

    made = Operator(
        f"dtypes-copied-{layout}",
        ("N",),
        {"x": Declared("N", "N", fill=fill)},
        {"y": Declared("N", "N")},
        lambda x: x * 2,
    )
    made.provider("right")(lambda x: x * 2)

    @made.provider("doubles", mutates={"x": "y"})
    def doubles(x: Tensor) -> None:
        x.mul_(2)

    before = kept.clone()
    assert {name: said(row) for name, row in measured(made, N=8).items()} == {"right": "ok", "doubles": "ok"}
    assert equal(kept, before)
