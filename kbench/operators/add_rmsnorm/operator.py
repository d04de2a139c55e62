"""Residual sum and RMS normalisation, as between the layers of a language model: `h = x + residual`, and
`y = h / sqrt(mean(h^2) + eps) * weight` for each row of (M, N) matrices."""

from __future__ import annotations

import math
from typing import Any

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import SAME, Tensor
from kbench.kernels.libraries import (
    add_in_place,
    inference_norm,
    liger_casting,
    liger_rows,
    quack_norm,
    quack_rows,
    without_gaps,
)
from kbench.kernels.torch_fused import add_compiled
from kbench.operators.rmsnorm.operator import row_error
from kbench.results.case import BACKWARD, FORWARD, Case

Two = tuple[torch.Tensor, torch.Tensor]


def _reference(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    h = x + residual
    return h / (h.square().mean(-1, keepdim=True) + eps).sqrt() * weight, h


def _bytes(case: Case) -> int:
    """Forward: x and residual in, y and h out. Backward: the gradients of y and h, and h, in; the gradient of x out."""
    matrices, weight = 4 * case.M * case.N * case.itemsize, NORM_WEIGHT.bytes_in(case)
    forward, backward = matrices + weight, matrices + 2 * weight
    return int({FORWARD: forward, BACKWARD: backward}.get(case.mode, forward + backward))


def _weight_error(case: Case) -> float:
    """The gradient of the weight is a sum over the rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units.

    Its terms contain h, which kernels keep in the dtype of the case. If the gradient is in float32 and h is not, two units of
    h's dtype are allowed, as everywhere for a rounded intermediate result.
    """
    of_h = {"float16": 2**13, "bfloat16": 2**16}  # units of float32 in a unit of this dtype
    rounded = 2 * of_h.get(case.dtype, 0) if NORM_WEIGHT.dtype_in(case) != case.dtype else 0
    return row_error(case) + 2 * math.sqrt(case.M) + rounded


NORM_WEIGHT = Tensor("N", dtype="weight_dtype", tolerance=_weight_error)

add_rmsnorm = Operator(
    "add_rmsnorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "residual": Tensor("M", "N"),
        "weight": NORM_WEIGHT,
    },
    outputs={"y": Tensor("M", "N"), "h": Tensor("M", "N")},
    scalars={"eps": 1e-6},
    choices={"weight_dtype": (SAME, "float32")},  # models often keep the weights of norms in float32
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight"),  # the gradient of residual is that of x: kernels write it once
    rows="M",
    tolerance=row_error,
    bytes=_bytes,
)


@add_rmsnorm.provider("torch-native")
def torch_native(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    h = x + residual
    return torch.nn.functional.rms_norm(h, x.shape[-1:], weight, eps), h


@add_rmsnorm.provider("torch-in-place", mutates={"residual": "h"})
def torch_in_place(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(residual.add_(x), x.shape[-1:], weight, eps)


def naive(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    """The function that torch.compile fuses. It computes in float32 and rounds each output once."""
    h = x.float() + residual.float()
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype), h.to(x.dtype)


add_compiled(add_rmsnorm, naive)


@add_rmsnorm.provider("liger", requires="liger_kernel", supports=liger_rows)
def liger(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    """Liger-Kernel's Triton kernel. It rounds h before it normalises it."""
    from liger_kernel.transformers.functional import liger_fused_add_rms_norm

    if not x.numel():
        return torch.empty_like(x), torch.empty_like(x)
    mode = liger_casting(x, weight)
    y, h = liger_fused_add_rms_norm(x, residual, weight, eps, 0.0, mode, in_place=False)
    return y, h


def liger_saving(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float
) -> tuple[Two, tuple[Any, ...]]:
    """The outputs; and for the backward pass h, the factor of each row and the launch."""
    from liger_kernel.ops import fused_add_rms_norm_forward

    if not x.numel():
        return (torch.empty_like(x), torch.empty_like(x)), ()
    mode = liger_casting(x, weight)
    y, h, factors, *launch = fused_add_rms_norm_forward(x.contiguous(), residual.contiguous(), weight, eps, 0.0, mode)
    return (y, h), (h, factors, launch)


add_in_place(add_rmsnorm, "liger")


@add_rmsnorm.backward("liger-in-place", saves=liger_saving, mutates={"gradient of y": "x"})
def liger_backward_in_place(
    dy: torch.Tensor,
    dh: torch.Tensor,
    x: torch.Tensor,
    residual: torch.Tensor,
    weight: torch.Tensor,
    saved: tuple[Any, ...],
) -> torch.Tensor:
    """What Liger does by default: the gradient of x is written over that of y."""
    from liger_kernel.ops import fused_add_rms_norm_backward

    if not x.numel():
        return torch.zeros_like(weight)
    h, factors, (block, warps, stages, casting_mode) = saved
    dweight: torch.Tensor
    *_, dweight = fused_add_rms_norm_backward(
        without_gaps("Liger", dy), dh.contiguous(), h, weight, factors, 0.0, casting_mode, block, warps, stages, True
    )
    return dweight


@add_rmsnorm.provider("quack", requires="quack", devices=("cuda",), supports=quack_norm)
def quack(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    """QuACK's CuTe-DSL kernel. Compiles on the first use of each (dtype, N)."""
    from quack.rmsnorm import rmsnorm_fwd

    y, h, _ = rmsnorm_fwd(quack_rows(x), weight, residual=quack_rows(residual), eps=eps)
    return y, h


def quack_saving(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> tuple[Two, Two]:
    """The outputs; and for the backward pass h and the factor of each row."""
    from quack.rmsnorm import rmsnorm_fwd

    y, h, factors = rmsnorm_fwd(quack_rows(x), weight, residual=quack_rows(residual), eps=eps, store_rstd=True)
    return (y, h), (h, factors)


@add_rmsnorm.backward("quack", saves=quack_saving)
def quack_backward(
    dy: torch.Tensor, dh: torch.Tensor, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, saved: Two
) -> Two:
    from quack.rmsnorm import rmsnorm_bwd

    h, factors = saved
    dx, dweight, *_ = rmsnorm_bwd(h, weight, quack_rows(dy), factors, dresidual_out=quack_rows(dh), has_residual=True)
    return dx, dweight


@add_rmsnorm.provider(
    "flashinfer",
    requires="flashinfer",
    devices=("cuda",),
    supports=inference_norm("FlashInfer", NORM_WEIGHT, "float16", "bfloat16"),
    mutates={"x": "y", "residual": "h"},
)
def flashinfer(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> None:
    """FlashInfer's kernel writes y over x, and h over the residual. Compiles on its first use."""
    from flashinfer.norm import fused_add_rmsnorm

    if x.numel():
        fused_add_rmsnorm(without_gaps("FlashInfer", x), without_gaps("FlashInfer", residual), weight, eps)


@add_rmsnorm.provider(
    "vllm",
    requires="vllm",
    devices=("cuda",),
    supports=inference_norm("vLLM", NORM_WEIGHT),
    mutates={"x": "y", "residual": "h"},
)
def vllm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> None:
    """vLLM's CUDA kernel writes y over x, and h over the residual. `_custom_ops` is what vLLM offers for a call without a
    layer."""
    from vllm._custom_ops import fused_add_rms_norm

    if x.numel():
        fused_add_rms_norm(without_gaps("vLLM", x), without_gaps("vLLM", residual), weight, eps)
