"""SwiGLU in torch: in two calls, and as one function that torch.jit.script and torch.compile fuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from kbench.kernels import torch_fused
from kbench.operators.swiglu.operator import swiglu
from kbench.results.case import Case

if TYPE_CHECKING:
    from torch import Tensor


@swiglu.provider("torch-native", label="torch (silu, mul)")
def torch_native(gate: Tensor, up: Tensor) -> Tensor:
    """Two calls. torch has no function for both. The first result is rounded to the dtype of the inputs."""
    return torch.nn.functional.silu(gate) * up


def naive(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Computes in float32 and rounds once."""
    g = gate.float()
    return (g * torch.sigmoid(g) * up.float()).to(gate.dtype)


@swiglu.provider("torch-jit", label="torch.jit.script", factory=True)
def torch_jit(case: Case) -> Callable[..., Tensor]:
    return torch_fused.scripted(naive)


@swiglu.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case) -> Callable[..., Tensor]:
    return torch_fused.compiled(naive)
