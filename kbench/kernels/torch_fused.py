"""Plain torch functions, fused by torch's own compilers, anew for every case."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.results.case import Case

Result = TypeVar("Result")


def scripted(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A new script for every caller: the profiling executor specialises a script for the first shapes, and runs later
    shapes without fusion."""
    return torch.jit.script(_copy(function))


def compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """A new code object for every caller: Dynamo counts recompilations per code object, and falls back to eager mode after
    eight. Inductor gets one compile thread, so that it starts no pool of processes that could outlive this one."""
    from torch._inductor import config  # slow to import, and it imports Triton

    config.compile_threads = 1
    return torch.compile(_copy(function), dynamic=False)


def add_compiled(operator: Operator, function: Callable[..., Any]) -> None:
    """Register a function, compiled for each case, as the provider `torch-compile`. Its keyword-only arguments are scalars."""

    @operator.provider("torch-compile", factory=True, sources=[Path(function.__code__.co_filename)])
    def build(case: Case, **scalars: Any) -> Callable[..., Any]:
        kernel = compiled(function)
        return partial(kernel, **scalars) if scalars else kernel


def add_scripted(operator: Operator, function: Callable[..., Tensor]) -> None:
    """Register a function, scripted for each case, as the provider `torch-jit`."""

    @operator.provider("torch-jit", factory=True, sources=[Path(function.__code__.co_filename)])
    def build(case: Case) -> Callable[..., Tensor]:
        return scripted(function)


def _copy(function: Callable[..., Result]) -> Callable[..., Result]:
    """The same function with a code object of its own."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
