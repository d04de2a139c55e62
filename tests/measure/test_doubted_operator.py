"""When the baseline fails, or everybody does, the operator may be what is wrong: the reason says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from in_process import case_run, matrices
from torch import Tensor


def right(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def also_right(x: Tensor) -> Tensor:
    return x.exp() / x.exp().sum(-1, keepdim=True)


NARROW, WRONG = (
    "so the tolerance of operator doubted may be too narrow",
    "so the reference of operator doubted may be wrong",
)


@pytest.mark.parametrize(
    ("tolerance", "functions", "baseline", "doubts"),
    [
        pytest.param(0.1, (right, torch.zeros_like), 0, [f"the baseline fails, {NARROW}", ""], id="off by little"),
        pytest.param(64, (torch.sigmoid,), 0, [f"the baseline fails, {WRONG}"], id="far off"),
        pytest.param(64, (right, torch.zeros_like), None, ["", ""], id="one is right"),
        pytest.param(0.3, (right, also_right), None, [f"every provider fails, {NARROW}"] * 2, id="all fail"),
    ],
)
def test_the_operator_is_doubted_if_the_baseline_or_every_provider_fails(
    no_operators: None,
    tolerance: float,
    functions: tuple[Callable[[Tensor], Tensor], ...],
    baseline: int | None,
    doubts: list[str],
) -> None:
    scale = {"scale": lambda case, reference, x: reference, "output_ulps": 0.5}
    operator = matrices("doubted", also_right, tolerance=tolerance, **scale)
    for number, function in enumerate(functions):
        operator.provider(f"provider-{number}")(function)
    run = case_run(operator, M=8, N=256)
    run.baseline = baseline
    for row, doubt in zip(run.run(), doubts, strict=False):
        assert row.reason.endswith(f"; {doubt}") if doubt else "operator doubted" not in row.reason
