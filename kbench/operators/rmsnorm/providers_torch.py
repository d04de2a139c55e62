"""RMS normalisation in torch: as torch offers it, step by step, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from kbench.kernels import torch_fused
from kbench.operators.rmsnorm.operator import rmsnorm
from kbench.results.case import Case


@rmsnorm.provider("torch-native", label="torch.nn.functional.rms_norm")
def torch_native(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


@rmsnorm.provider("torch-eager", label="torch (eager, naive)")
def torch_eager(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Several calls, each a pass over memory. They compute in float32, so that the result is rounded once, at the end."""
    v = x.float()
    return (v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


@rmsnorm.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, eps: float) -> Callable[..., torch.Tensor]:
    return partial(torch_fused.compiled(torch_eager), eps=eps)
