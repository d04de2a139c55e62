"""Layer normalisation in torch: as torch offers it, step by step, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from kbench.kernels import torch_fused
from kbench.kernels.libraries import any_of
from kbench.operators.layernorm.operator import NORM_WEIGHT, layernorm
from kbench.results.case import FORWARD, Case


def _float32_on_host(case: Case) -> str | None:
    if case.mode == FORWARD or case.dtype == "float32" or torch.accelerator.is_available():
        return None
    return f"on the host, torch adds up the gradients of weight and bias in {case.dtype}, which loses digits with every row"


def _other_weights_on_devices(case: Case) -> str | None:
    if NORM_WEIGHT.dtype_in(case) == case.dtype or not torch.accelerator.is_available():
        return None
    return "on accelerators, torch takes weights in the dtype of x only"


@layernorm.provider(
    "torch-native",
    label="torch.nn.functional.layer_norm",
    supports=any_of(_float32_on_host, _other_weights_on_devices),
)
def torch_native(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


@layernorm.provider("torch-eager", label="torch (eager, naive)")
def torch_eager(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Several calls, each a pass over memory. They compute in float32, so that the result is rounded once, at the end."""
    v = x.float()
    v = v - v.mean(-1, keepdim=True)
    normalised = v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps)
    return (normalised * weight.float() + bias.float()).to(x.dtype)


@layernorm.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, eps: float) -> Callable[..., torch.Tensor]:
    return partial(torch_fused.compiled(torch_eager), eps=eps)
