"""GELU in torch: as one call, scripted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING

import torch

from kbench.operators.gelu import gelu

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results import Case


@gelu.provider("torch-native", label="torch.nn.functional.gelu")
def torch_native(x: Tensor, *, approximate: str = "tanh") -> Tensor:
    return torch.nn.functional.gelu(x, approximate=approximate)


def naive_tanh(x: torch.Tensor) -> torch.Tensor:
    """What torch.jit.script and torch.compile are given to fuse. In float32 throughout, so that a 16-bit result is
    rounded once, at the end."""
    v = x.float()
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)  # sqrt(2 / pi); TorchScript sees no globals
    return (0.5 * v * (1 + torch.tanh(u))).to(x.dtype)


def naive_erf(x: torch.Tensor) -> torch.Tensor:
    """The exact form of `naive_tanh`."""
    v = x.float()
    return (0.5 * v * (1 + torch.erf(0.7071067811865476 * v))).to(x.dtype)


NAIVE = {"tanh": naive_tanh, "none": naive_erf}


@gelu.provider("torch-jit", label="torch.jit.script", factory=True)
def torch_jit(case: Case, *, approximate: str = "tanh") -> Callable[..., Tensor]:
    """A script of its own for every case: the profiling executor specialises one for the first shapes it meets, and
    runs later shapes unfused."""
    scripted: Callable[..., Tensor] = torch.jit.script(_copy(NAIVE[approximate]))
    return scripted


@gelu.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, approximate: str = "tanh") -> Callable[..., Tensor]:
    """A code object of its own for every case: Dynamo counts recompilations by code object, and falls back to eager
    after eight. One compile thread, so that Inductor starts no pool of processes that could outlive this one."""
    from torch._inductor import config  # slow to import, and it imports Triton

    config.compile_threads = 1
    compiled: Callable[..., Tensor] = torch.compile(_copy(NAIVE[approximate]), dynamic=False)
    return compiled


def _copy(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same function with a code object of its own."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
