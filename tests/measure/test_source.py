"""What defines a case: rows compare as long as it is the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kbench.contract.operator import Operator, registered
from kbench.contract.tensor import Tensor, integers
from kbench.measure.correctness.definition import Definition, Work, case_hash


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def hash_of(**changes: Any) -> str:
    declared = {"inputs": {"x": Tensor("N")}, "outputs": {"y": Tensor("N")}, "reference": twice} | changes
    operator = Operator("defined", ("N",), **declared)
    del registered["defined"]
    return case_hash(Definition(operator, operator.case(N=4)), Work(32, None))


def test_a_provider_and_the_shapes_of_models_do_not_belong_to_the_definition() -> None:
    assert hash_of() == hash_of(model_axes={"N": "hidden"}) == hash_of(edges={"none": lambda case, x: (x,)})


@pytest.mark.parametrize(
    "change",
    [
        {"reference": lambda x: x * 2 + 0},
        {"scale": lambda case, output, x: output},
        {"check": lambda case, inputs, outputs, expected: None},
        {"inputs": {"x": Tensor("N", dtype="int64", fill=integers("N"))}},
        {"inputs": {"x": Tensor("1*N")}},
        {"tolerance": 65},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_the_definition_shows(change: dict[str, Any]) -> None:
    assert hash_of(**change) != hash_of()
