"""What cannot be declared is refused when the operator is made, with the name of the declaration."""

from __future__ import annotations

from typing import Any

import pytest

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.registry import operator_names

REFUSED = {
    "reference is int; it must be a function": {"reference": 3},
    "scale is int; it must be a function": {"scale": 3},
    "check is str; it must be a function": {"check": "bitwise"},
    "bytes is int; it must be a function": {"bytes": 3},
    "flops is float; it must be a function": {"flops": 2.0},
    "edge input odd is int; it must be a function": {"edges": {"odd": 3}},
    "tolerance is '64'; it must be a number that is not negative, or a function": {"tolerance": "64"},
    "tolerance is -1; it must be a number that is not negative, or a function": {"tolerance": -1},
    "output_ulps is nan; it must be a number that is not negative": {"output_ulps": float("nan")},
    "output_ulps is True; it must be": {"output_ulps": True},
    "tolerance of y is inf; it must be": {"outputs": {"y": Tensor("M", "N", tolerance=float("inf"))}},
    "ulps of x is '2'; it must be": {"inputs": {"x": Tensor("M", "N", ulps="2")}},  # type: ignore[arg-type]
    "scale works with one output only": {
        "outputs": {"y": Tensor("M"), "z": Tensor("M")},
        "scale": lambda case, y, x: y,
    },
    "rows is 'K', which is not one of the axes M, N": {"rows": "K"},
    "rows='M': output y has no axis M": {"rows": "M", "outputs": {"y": Tensor("N")}},
    "rows='M' does not work with y": {"rows": "M", "outputs": {"y": Tensor("2*M", "M")}},
    "gradients: 'w' is not one of the inputs x": {"gradients": ("w",)},
    "mutates: x holds 'h', which is not one of the outputs y": {"mutates": {"x": "h"}},
    "mutates: x cannot hold y, which has other sizes or another dtype": {
        "mutates": {"x": "y"},
        "outputs": {"y": Tensor("N", "M")},
    },
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_cannot_be_is_refused(says: str) -> None:
    sound: dict[str, Any] = {
        "axes": ("M", "N"),
        "inputs": {"x": Tensor("M", "N")},
        "outputs": {"y": Tensor("M", "N")},
        "reference": lambda x: x * 2,
    }
    with pytest.raises(ValueError, match="operator 'declared-badly': ") as refused:
        Operator("declared-badly", **{**sound, **REFUSED[says]})
    assert says in str(refused.value)
    assert "declared-badly" not in operator_names()
