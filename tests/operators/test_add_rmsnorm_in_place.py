"""Providers of add_rmsnorm that write the sum over `residual`, with a stand-in for the CUDA kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from kbench.contract.provider import Unsupported
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.expected import Expected
from kbench.measure.definition.definition import Definition
from kbench.measure.machine.device import Device
from kbench.operators.add_rmsnorm import providers_cuda
from kbench.operators.add_rmsnorm.operator import add_rmsnorm

CASE = add_rmsnorm.case("float32", M=5, N=64)


class Source:
    """A source whose kernel is computed by torch, one row after another as on a device."""

    @staticmethod
    def kernel(name: str, *, eps: float, **options: None) -> Callable[[Sequence[Tensor], Sequence[Tensor]], None]:
        assert name == "add_rmsnorm" and not any(options.values())

        def launch(inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
            x, residual, weight = inputs
            for row in range(len(x)):
                h = x[row] + residual[row]
                outputs[0][row] = h * (h.square().mean() + eps).rsqrt() * weight
                outputs[1][row] = h

        return launch


@pytest.fixture(autouse=True)
def kernel_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers_cuda, "SOURCE", Source)


def inputs() -> list[Tensor]:
    return [torch.randn(5, 64), torch.randn(5, 64), torch.randn(64)]


@pytest.mark.parametrize("name", ["cuda", "cuda-in-place"])
def test_it_is_right_and_changes_only_what_it_declares(name: str) -> None:
    given = inputs()
    definition = Definition(add_rmsnorm, CASE)
    stage = stage_of(definition, add_rmsnorm.providers[name], {})
    assert run_checked(Expected(definition, [x.clone() for x in given]), stage, given, Device()).wrong is None


def test_the_sum_is_in_the_memory_of_residual() -> None:
    x, residual, weight = inputs()
    wanted = x + residual
    providers_cuda.cuda_in_place(CASE, eps=1e-6)(x, residual, weight)
    torch.testing.assert_close(residual, wanted, rtol=0, atol=0)


def test_a_residual_that_would_be_copied_is_declined() -> None:
    x, residual, weight = inputs()
    with pytest.raises(Unsupported, match="not next to each other in memory"):
        providers_cuda.cuda_in_place(CASE, eps=1e-6)(x, residual.repeat(1, 2)[:, ::2], weight)
