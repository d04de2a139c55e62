"""Sizes of tensors: what can be written, what it is worth, and what is refused with a sentence."""

from __future__ import annotations

import pytest

from kbench.contract.sizes import SizeError, evaluate
from kbench.contract.tensor import Tensor

AXES = {"M": 6, "N": 7, "heads": 2, "causal": True, "eps": 0.5}


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("M", 6),
        (5, 5),
        ("M/2", 3),
        ("N//2", 3),
        ("heads*(M+1) - N", 7),
        ("M-M", 0),
    ],
)
def test_a_size_is_an_axis_a_number_or_arithmetic(size: str | int, expected: int) -> None:
    assert evaluate(size, AXES) == expected


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ("N/2", "N/2 is not a whole number at N=7"),
        ("M-N", "M-N is -1 at M=6, N=7; a size cannot be negative"),
        ("M/(N-7)", "M/(N-7) divides by zero at M=6, N=7"),
        ("K", "K in the size K is not an axis"),
        ("2*causal", "causal in the size 2*causal is not an integer"),
        ("eps", "eps in the size eps is not an integer"),
    ],
)
def test_a_size_without_a_value_says_why(size: str, says: str) -> None:
    with pytest.raises(SizeError) as refused:
        evaluate(size, AXES)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    "text",
    ["", "M**2", "f(M)", "1.5", "M if N else 2"],
)
def test_everything_else_is_refused_when_the_tensor_is_declared(text: str) -> None:
    with pytest.raises(SizeError, match="is not a size; ") as refused:
        Tensor("M", text)
    assert len(str(refused.value)) < 200
