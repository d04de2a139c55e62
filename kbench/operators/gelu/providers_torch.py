"""GELU in torch: as one call, scripted, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from kbench.kernels import torch_fused
from kbench.operators.gelu.operator import gelu

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case


@gelu.provider("torch-native", label="torch.nn.functional.gelu")
def torch_native(x: Tensor, *, approximate: str = "tanh") -> Tensor:
    return torch.nn.functional.gelu(x, approximate=approximate)


def naive_tanh(x: torch.Tensor) -> torch.Tensor:
    """The function that torch.jit.script and torch.compile fuse. It computes in float32, so a 16-bit result is rounded once,
    at the end."""
    v = x.float()
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)  # sqrt(2 / pi); TorchScript has no globals
    return (0.5 * v * (1 + torch.tanh(u))).to(x.dtype)


def naive_erf(x: torch.Tensor) -> torch.Tensor:
    """The exact form of `naive_tanh`."""
    v = x.float()
    return (0.5 * v * (1 + torch.erf(0.7071067811865476 * v))).to(x.dtype)


NAIVE = {"tanh": naive_tanh, "none": naive_erf}


@gelu.provider("torch-jit", label="torch.jit.script", factory=True)
def torch_jit(case: Case, *, approximate: str = "tanh") -> Callable[[Tensor], Tensor]:
    return torch_fused.scripted(NAIVE[approximate])


@gelu.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, approximate: str = "tanh") -> Callable[[Tensor], Tensor]:
    return torch_fused.compiled(NAIVE[approximate])
