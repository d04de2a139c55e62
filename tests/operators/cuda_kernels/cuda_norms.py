"""What the tests of the CUDA kernels of rmsnorm, add_rmsnorm and layernorm share: inputs, and the judgement of outputs."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from kbench.contract.registry import operator
from kbench.measure.correctness.call import stage_of
from kbench.measure.correctness.check import run_checked
from kbench.measure.correctness.definition import Definition
from kbench.measure.correctness.expected import Expected
from kbench.measure.machine.device import Device

OPERATORS = ("rmsnorm", "add_rmsnorm", "layernorm")

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

PRECISIONS = [(dtype, dtype) for dtype in DTYPES] + [(dtype, torch.float32) for dtype in DTYPES[1:]]
"""Of the matrices and of the weights."""


def randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def inputs_of(name: str, matrices: list[Tensor], weights: torch.dtype | None = None, first: int = 0) -> list[Tensor]:
    """The matrices that an operator reads, and its vectors: in the matrices' dtype unless `weights` is another. The vectors
    begin `first` elements beyond a multiple of 16 bytes."""
    columns, dtype = matrices[0].shape[1], weights or matrices[0].dtype
    vectors = [randn(first + columns, dtype=dtype)[first:] for _ in range(2 if name == "layernorm" else 1)]
    return [*matrices[: matrices_of(name)], *vectors]


def matrices_of(name: str) -> int:
    """How many matrices the operator reads."""
    return 2 if name == "add_rmsnorm" else 1


def dense(name: str, M: int, N: int, dtype: torch.dtype, weights: torch.dtype | None = None) -> list[Tensor]:
    return inputs_of(name, [randn(M, N, dtype=dtype), randn(M, N, dtype=dtype)], weights)


def wrong(name: str, inputs: list[Tensor], what: str, provider: str = "cuda") -> list[str]:
    """Check a provider as `kbench check` does: a sentence for what is wrong, nothing if it is right."""
    M, N = inputs[0].shape
    op = operator(name)
    alike = inputs[matrices_of(name)].dtype == inputs[0].dtype
    weights = "same" if alike else "float32"
    case = op.case(str(inputs[0].dtype).removeprefix("torch."), M=M, N=N, weight_dtype=weights)
    definition = Definition(op, case)
    stage = stage_of(definition, op.providers[provider], {})
    fault = run_checked(Expected(definition, [x.clone() for x in inputs]), stage, inputs, Device()).wrong
    return [f"{case.label}, {what}: {fault}"] if fault else []


def kernel(name: str, **options: float) -> Any:
    """A function of the operator's inputs that returns the first output, with these options of its kernel."""
    source = importlib.import_module(f"kbench.operators.{name}.providers_cuda").SOURCE
    launch = source.kernel(name, eps=1e-6, **options)

    def call(inputs: list[Tensor]) -> Tensor:
        outputs = [torch.empty_like(inputs[0]) for _ in range(2 if name == "add_rmsnorm" else 1)]
        launch(inputs, outputs)
        return outputs[0]

    return call


def row_counts(N: int, dtype: torch.dtype) -> list[int]:
    """Few rows and many are dispatched differently, by their number and by their bytes."""
    many = 2**24 // (N * dtype.itemsize) + 1
    return [1, 19, min(many, 2100)] if N < 10_000 else [3, many]
