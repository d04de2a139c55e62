"""The code of a problem in float64: what it converts and makes is float64, and nothing outside changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kbench.sources.problems.reference import in_float64

X = torch.full((2,), 1 / 3, dtype=torch.float64)

SAME: dict[str, Callable[[Tensor], Tensor]] = {
    "float": lambda x: x.float(),
    "to": lambda x: x.to(torch.bfloat16),
    "type": lambda x: x.type(torch.float16),
    "made": lambda x: torch.tensor([1 / 3, 1 / 3], dtype=torch.float32),
    "summed": lambda x: x.sum(0, keepdim=True, dtype=torch.float32).expand(2) / 2,
    "bits": lambda x: x.view(torch.int64).view(torch.float64),
}


@pytest.mark.parametrize("name", SAME)
def test_values_are_not_rounded(name: str) -> None:
    with in_float64():
        found = SAME[name](X)
    assert found.dtype == torch.float64 and torch.equal(found, X)


def test_conversions_to_8_bits_are_part_of_a_definition() -> None:
    with in_float64():
        assert X.to(torch.float8_e4m3fn).dtype == torch.float8_e4m3fn


def test_nothing_is_left_behind_by_code_that_raises() -> None:
    with pytest.raises(KeyError), in_float64():
        raise KeyError
    assert torch.tensor(0.5).dtype == torch.float32 and X.float().dtype == torch.float32
