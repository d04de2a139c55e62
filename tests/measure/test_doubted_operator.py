"""When the baseline fails, or everybody does, the operator may be what is wrong: the reason says so."""

from __future__ import annotations

import torch
from in_process import case_run, matrices
from torch import Tensor

from kbench.contract.operator import Operator


def made(name: str, tolerance: float, **providers: object) -> Operator:
    operator = matrices(
        name,
        lambda x: x.exp() / x.exp().sum(-1, keepdim=True),
        tolerance=tolerance,
        scale=lambda case, reference, x: reference,
        output_ulps=0.5,
    )
    for provider, function in providers.items():
        operator.provider(provider)(function)  # type: ignore[type-var]
    return operator


def reasons(operator: Operator, baseline: int | None = 0) -> dict[str, str]:
    run = case_run(operator, M=8, N=256)
    run.baseline = baseline
    return {row.provider: row.reason for row in run.run() if row.role == "provider"}


def right(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def also_right(x: Tensor) -> Tensor:
    return x.exp() / x.exp().sum(-1, keepdim=True)


DOUBT = "so the tolerance of operator doubted-narrow may be too narrow"


def test_the_baseline_that_is_off_by_little_doubts_the_tolerance() -> None:
    found = reasons(made("doubted-narrow", 0.1, torch=right, zeros=torch.zeros_like))
    assert found["torch"].endswith(f"; the baseline fails, {DOUBT}")
    assert DOUBT not in found["zeros"]


def test_others_that_fail_beside_a_right_one_do_not() -> None:
    found = reasons(made("doubted-not", 64, torch=right, zeros=torch.zeros_like), None)
    assert found["torch"] == ""
    assert found["zeros"] and "baseline" not in found["zeros"] and "every provider" not in found["zeros"]


def test_without_a_baseline_all_of_them_have_to_fail() -> None:
    found = reasons(made("doubted-all", 0.3, first=right, second=also_right), None)
    assert all(
        "; every provider fails, so the tolerance of operator doubted-all may be too narrow" in reason
        for reason in found.values()
    )


def test_a_baseline_that_is_far_off_doubts_the_reference() -> None:
    found = reasons(made("doubted-reference", 64, torch=torch.sigmoid))
    assert "the baseline fails, so the reference of operator " in found["torch"]
