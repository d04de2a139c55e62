"""Residual sum and RMS normalisation of other libraries. Each provider is available if its package is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kbench.kernels.libraries import (
    any_of,
    inference_norm,
    liger_rows,
    quack_norm,
    quack_rows,
    same_as,
    without_gaps,
)
from kbench.operators.add_rmsnorm.operator import NORM_WEIGHT, add_rmsnorm
from kbench.operators.rmsnorm.providers_libraries import liger_casting

if TYPE_CHECKING:
    from torch import Tensor

    Two = tuple[Tensor, Tensor]


@add_rmsnorm.provider("liger", label="Liger", requires="liger_kernel", supports=liger_rows)
def liger(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float, casting_mode: str | None = None) -> Two:
    """Liger-Kernel's Triton kernel. It rounds h before it normalises it. `casting_mode` is `llama`, Liger's default, or
    `gemma`: see `liger_casting`."""
    from liger_kernel.transformers.functional import liger_fused_add_rms_norm

    if not x.numel():
        return torch.empty_like(x), torch.empty_like(x)
    mode = casting_mode or liger_casting(x, weight)
    y, h = liger_fused_add_rms_norm(x, residual, weight, eps, 0.0, mode, in_place=False)
    return y, h


def liger_saving(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Two, tuple[Any, ...]]:
    """The outputs; and for the backward pass h, the factor of each row and the launch."""
    from liger_kernel.ops import fused_add_rms_norm_forward

    if not x.numel():
        return (torch.empty_like(x), torch.empty_like(x)), ()
    mode = liger_casting(x, weight)
    y, h, factors, *launch = fused_add_rms_norm_forward(x.contiguous(), residual.contiguous(), weight, eps, 0.0, mode)
    return (y, h), (h, factors, launch)


add_rmsnorm.provider(
    "liger-in-place",
    label="Liger (in place)",
    requires="liger_kernel",
    supports=any_of(liger_rows, same_as("liger")),
)(liger)


@add_rmsnorm.backward("liger-in-place", saves=liger_saving, mutates={"gradient of y": "x"})
def liger_backward_in_place(
    dy: Tensor, dh: Tensor, x: Tensor, residual: Tensor, weight: Tensor, saved: tuple[Any, ...]
) -> Tensor:
    """What Liger does by default: the gradient of x is written over that of y."""
    from liger_kernel.ops import fused_add_rms_norm_backward

    if not x.numel():
        return torch.zeros_like(weight)
    h, factors, (block, warps, stages, casting_mode) = saved
    dweight: Tensor
    *_, dweight = fused_add_rms_norm_backward(
        without_gaps("Liger", dy), dh.contiguous(), h, weight, factors, 0.0, casting_mode, block, warps, stages, True
    )
    return dweight


@add_rmsnorm.provider("quack", label="QuACK", requires="quack", devices=("cuda",), supports=quack_norm)
def quack(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> Two:
    """QuACK's CuTe-DSL kernel. Compiles on the first use of each (dtype, N)."""
    from quack.rmsnorm import rmsnorm_fwd

    y, h, _ = rmsnorm_fwd(quack_rows(x), weight, residual=quack_rows(residual), eps=eps)
    return y, h


def quack_saving(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> tuple[Two, Two]:
    """The outputs; and for the backward pass h and the factor of each row."""
    from quack.rmsnorm import rmsnorm_fwd

    y, h, factors = rmsnorm_fwd(quack_rows(x), weight, residual=quack_rows(residual), eps=eps, store_rstd=True)
    return (y, h), (h, factors)


@add_rmsnorm.backward("quack", saves=quack_saving)
def quack_backward(dy: Tensor, dh: Tensor, x: Tensor, residual: Tensor, weight: Tensor, saved: Two) -> Two:
    from quack.rmsnorm import rmsnorm_bwd

    h, factors = saved
    dx, dweight, *_ = rmsnorm_bwd(h, weight, quack_rows(dy), factors, dresidual_out=quack_rows(dh), has_residual=True)
    return dx, dweight


@add_rmsnorm.provider(
    "flashinfer",
    label="FlashInfer (in place)",
    requires="flashinfer",
    devices=("cuda",),
    supports=inference_norm("FlashInfer", NORM_WEIGHT, "float16", "bfloat16"),
    mutates={"x": "y", "residual": "h"},
)
def flashinfer(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> None:
    """FlashInfer's kernel writes y over x, and h over the residual. Compiles on its first use."""
    from flashinfer.norm import fused_add_rmsnorm

    if x.numel():
        fused_add_rmsnorm(without_gaps("FlashInfer", x), without_gaps("FlashInfer", residual), weight, eps)


@add_rmsnorm.provider(
    "vllm",
    label="vLLM (in place)",
    requires="vllm",
    devices=("cuda",),
    supports=inference_norm("vLLM", NORM_WEIGHT),
    mutates={"x": "y", "residual": "h"},
)
def vllm(x: Tensor, residual: Tensor, weight: Tensor, *, eps: float) -> None:
    """vLLM's CUDA kernel writes y over x, and h over the residual. `_custom_ops` is what vLLM offers for a call without a
    layer."""
    from vllm._custom_ops import fused_add_rms_norm

    if x.numel():
        fused_add_rms_norm(without_gaps("vLLM", x), without_gaps("vLLM", residual), weight, eps)
