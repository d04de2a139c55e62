"""Softmax in torch: step by step, as one call, scripted, and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from kbench.kernels import torch_fused
from kbench.operators.softmax.operator import softmax

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case


def _float32_only(case: Case) -> str | None:
    if case.dtype == "float32":
        return None
    return f"rounds to {case.dtype} after each of its five steps, which costs more than one unit in the last place"


def _five_passes(case: Case) -> int:
    """Elements read and written: max MN, M; subtract MN + M, MN; exp MN, MN; sum MN, M; divide MN + M, MN."""
    elements = case.M * case.N
    return int((5 * elements + 2 * case.M) + (3 * elements + 2 * case.M)) * case.itemsize


@softmax.provider("torch-eager", label="torch (eager, naive)", supports=_float32_only, moved_bytes=_five_passes)
def torch_eager(x: Tensor) -> Tensor:
    """Five calls, each a pass over memory. Shows what fusion saves."""
    if x.numel() == 0:
        return torch.empty_like(x)
    row_max = x.detach().amax(-1, keepdim=True)  # its gradient is zero
    shifted = x - row_max
    numerator = shifted.exp()
    denominator = numerator.sum(-1, keepdim=True)
    return numerator / denominator


@softmax.provider("torch-native", label="torch.softmax")
def torch_native(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def naive(x: torch.Tensor) -> torch.Tensor:
    """The function that torch.jit.script and torch.compile fuse. It computes in float32, so a 16-bit result is rounded once,
    at the end. The gradient of the maximum is zero. Computed, it is a sum that cancels, which costs time and digits."""
    if x.numel() == 0:
        return torch.empty_like(x)
    v = x.float()
    e = (v - v.detach().amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


@softmax.provider("torch-jit", label="torch.jit.script", factory=True)
def torch_jit(case: Case) -> Callable[[Tensor], Tensor]:
    return torch_fused.scripted(naive)


@softmax.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case) -> Callable[[Tensor], Tensor]:
    return torch_fused.compiled(naive)
