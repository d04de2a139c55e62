"""Providers that store by address what depends on the inputs of a call are wrong while they are timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from in_process import measured, said
from torch import Tensor

from kbench.contract.registry import operator
from kbench.operators.grouped_matmul.operator import by_expert
from kbench.operators.linear_cross_entropy import torch_native


def with_stored_routing() -> Callable[..., Tensor]:
    remembered: dict[int, Tensor] = {}
    return lambda x, w, ends: by_expert(x, w, remembered.setdefault(ends.data_ptr(), ends.clone()))


def with_stored_loss() -> Callable[..., Tensor]:
    remembered: dict[int, Tensor] = {}

    def function(hidden: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        if hidden.data_ptr() not in remembered:
            remembered[hidden.data_ptr()] = torch_native(hidden, weight, labels)
        return remembered[hidden.data_ptr()].clone()

    return function


STORED = {
    # another routing of the same loads is a valid input between timed calls
    "grouped_matmul": (with_stored_routing, "torch-loop", {"T": 300, "E": 8, "K": 32, "N": 16, "routing": "zipf"}),
    "linear_cross_entropy": (with_stored_loss, "torch-native", {"T": 64, "V": 500, "H": 32}),
}


@pytest.fixture(params=STORED)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an operator that has such a provider during the test."""
    providers = operator(request.param).providers
    operator(request.param).provider("stored")(STORED[request.param][0]())
    yield request.param
    del providers["stored"]


@pytest.mark.skipif(torch.accelerator.is_available(), reason="a device decides by itself")
def test_a_provider_that_stores_by_address_is_wrong(name: str) -> None:
    _, honest, sizes = STORED[name]
    rows = measured(operator(name), [honest, "stored"], dtype="float32", rounds=5, **sizes)
    assert rows[honest].status.value == "ok", said(rows[honest])
    assert said(rows["stored"]).startswith("wrong")
