"""What the tests of the CUDA kernels share: random tensors on the device, and the judgement of outputs."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from judged_outputs import judged
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.registry import operator
from kbench.measure.correctness.check import accuracy
from kbench.results.case import Case

SOFTMAX, GELU = operator("softmax"), operator("gelu")

LADDER = ("cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle")

NORMS = ("rmsnorm", "add_rmsnorm", "layernorm")

DTYPES = (torch.float32, torch.float16, torch.bfloat16)

PRECISIONS = [(dtype, dtype) for dtype in DTYPES] + [(dtype, torch.float32) for dtype in DTYPES[1:]]
"""Of the matrices and of the weights of a norm."""

DEVICE = "cuda"

SIXTEEN_GIB = 16 * 2**30


def needs_memory(bytes_: int) -> None:
    free = torch.cuda.mem_get_info()[0]
    if free < bytes_:
        pytest.skip(f"needs {bytes_ >> 30} GiB of device memory, {free >> 30} are free")


def randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def wrong(op: Operator, provider: str, x: Tensor, what: str, **params: object) -> list[str]:
    """Run a provider of softmax on x: a sentence for what is wrong with its output, nothing when it is right."""
    case = Case(op.name, {"M": x.shape[0], "N": x.shape[1]}, str(x.dtype).removeprefix("torch."))
    before = x.clone()
    y = op.providers[provider].bind(case, params)(x)
    torch.cuda.synchronize()
    label = f"{provider} {params or ''} on {case.label}, {what}"
    if y.shape != x.shape or y.dtype != x.dtype or not y.is_contiguous():
        return [f"{label}: returned {tuple(y.shape)} {y.dtype}, strides {y.stride()}"]
    if not bool(((x == before) | (x.isnan() & before.isnan())).all()):
        return [f"{label}: changed its input"]
    fault = accuracy(op, case, [before], y).wrong
    return [f"{label}: {fault}"] if fault else []


def norm_inputs(name: str, matrices: list[Tensor], weights: torch.dtype | None = None, first: int = 0) -> list[Tensor]:
    """The matrices that a norm reads, and its vectors: in the matrices' dtype unless `weights` is another. The vectors begin
    `first` elements beyond a multiple of 16 bytes."""
    columns, dtype = matrices[0].shape[1], weights or matrices[0].dtype
    vectors = [randn(first + columns, dtype=dtype)[first:] for _ in range(2 if name == "layernorm" else 1)]
    return [*matrices[: matrices_of(name)], *vectors]


def matrices_of(name: str) -> int:
    """How many matrices a norm reads."""
    return 2 if name == "add_rmsnorm" else 1


def dense_inputs(name: str, M: int, N: int, dtype: torch.dtype, weights: torch.dtype | None = None) -> list[Tensor]:
    return norm_inputs(name, [randn(M, N, dtype=dtype), randn(M, N, dtype=dtype)], weights)


def wrong_norm(name: str, inputs: list[Tensor], what: str) -> list[str]:
    """Check `cuda` of a norm as `kbench check` does: a sentence for what is wrong, nothing if it is right."""
    M, N = inputs[0].shape
    weights = "same" if inputs[-1].dtype == inputs[0].dtype else "float32"
    case = operator(name).case(str(inputs[0].dtype).removeprefix("torch."), M=M, N=N, weight_dtype=weights)
    fault = judged(case, "cuda", inputs)
    return [f"{case.label}, {what}: {fault}"] if fault else []


def norm_kernel(name: str, **options: float) -> Any:
    """A function of a norm's inputs that returns the first output, with these options of its kernel."""
    source = importlib.import_module(f"kbench.operators.{name}.providers_kernels").SOURCE
    launch = source.kernel(name, eps=1e-6, **options)

    def call(inputs: list[Tensor]) -> Tensor:
        outputs = [torch.empty_like(inputs[0]) for _ in range(2 if name == "add_rmsnorm" else 1)]
        launch(inputs, outputs)
        return outputs[0]

    return call
