"""What the tests of the CUDA kernels of softmax and GELU share: random matrices, and the judgement of a provider's output."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kbench.contract.operator import Operator
from kbench.contract.registry import operator
from kbench.measure.correctness.check import accuracy
from kbench.results.case import Case

SOFTMAX, GELU = operator("softmax"), operator("gelu")

LADDER = ("cuda-naive", "cuda-online", "cuda-shared", "cuda-shuffle")

DTYPES = ("float32", "float16", "bfloat16")

DEVICE = "cuda"


def randn(M: int, N: int, dtype: str) -> Tensor:
    return torch.randn(M, N, device=DEVICE).to(getattr(torch, dtype))


def wrong(op: Operator, provider: str, x: Tensor, what: str, **params: object) -> list[str]:
    """Run a provider on x: a sentence for what is wrong with its output, nothing when it is right."""
    choices = {"approximate": params.pop("approximate")} if "approximate" in params else {}
    case = Case(op.name, {"M": x.shape[0], "N": x.shape[1]} | choices, str(x.dtype).removeprefix("torch."))
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


SIXTEEN_GIB = 16 * 2**30


def needs_memory(bytes_: int) -> None:
    free = torch.cuda.mem_get_info()[0]
    if free < bytes_:
        pytest.skip(f"needs {bytes_ >> 30} GiB of device memory, {free >> 30} are free")
