"""Residual sum and RMS normalisation in torch: as torch offers it, step by step, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from kbench.kernels import torch_fused
from kbench.operators.add_rmsnorm.operator import add_rmsnorm
from kbench.results.case import Case

Two = tuple[torch.Tensor, torch.Tensor]


@add_rmsnorm.provider("torch-native", label="torch (add, rms_norm)")
def torch_native(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    h = x + residual
    return torch.nn.functional.rms_norm(h, x.shape[-1:], weight, eps), h


@add_rmsnorm.provider("torch-in-place", label="torch (add_, rms_norm)", mutates={"residual": "h"})
def torch_in_place(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(residual.add_(x), x.shape[-1:], weight, eps)


def naive(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    """The function that torch.compile fuses. It computes in float32 and rounds each output once."""
    h = x.float() + residual.float()
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype), h.to(x.dtype)


@add_rmsnorm.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, eps: float) -> Callable[..., Two]:
    return partial(torch_fused.compiled(naive), eps=eps)
