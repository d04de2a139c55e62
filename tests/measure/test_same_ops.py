"""A provider that has operators of its own is not taken for the baseline. tests/cheats has one that is the baseline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from in_process import matrices, measured, said
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode

from kbench.contract.operator import Operator


def softmax(name: str, **more: object) -> Operator:
    made = matrices(name, lambda x: torch.softmax(x, -1), **more)
    made.provider("torch-native")(lambda x: torch.softmax(x, -1))
    return made


def naive(x: Tensor) -> Tensor:
    numerator = (x - x.amax(-1, keepdim=True)).exp()
    return numerator / numerator.sum(-1, keepdim=True)


def fused(graph: object, inputs: object) -> Callable[[Tensor], tuple[Tensor]]:
    """A compiler of torch.compile that has a softmax of its own."""
    return lambda x: (naive(x),)


@pytest.mark.slow
def test_other_operators_are_no_fault() -> None:
    honest = softmax("honest")
    honest.provider("naive")(lambda x: naive(x))
    honest.provider("numpy")(lambda x: torch.from_numpy(_without_torch(x.numpy())))
    honest.provider("compiled")(torch.compile(lambda x: torch.softmax(x, -1), backend=fused))
    honest.provider("also-copies")(lambda x: torch.softmax(x, -1).clone())
    honest.provider("out", out=["y"])(lambda x, *, y: torch.softmax(x, -1, out=y))
    for name, row in measured(honest, M=4, N=8).items():
        assert said(row) == "ok" and "same-ops" not in row.flags, name


def _without_torch(x: Any) -> Any:
    numerator = np.exp(x - x.max(-1, keepdims=True))
    return numerator / numerator.sum(-1, keepdims=True)


def test_a_provider_that_fails_while_its_operators_are_recorded_is_timed() -> None:
    shy = softmax("shy")

    @shy.provider("shy")
    def call(x: Tensor) -> Tensor:
        if _get_current_dispatch_mode():
            raise NotImplementedError("not in a mode")
        return torch.softmax(x, -1)

    row = measured(shy, M=4, N=8)["shy"]
    assert row.ms and "same-ops" not in row.flags
    assert said(row).startswith(
        "ok its torch operators are not known: NotImplementedError: not in a mode at test_same_ops"
    )
