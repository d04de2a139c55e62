"""RMS normalisation of other libraries. Each provider is available if its package is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from kbench.kernels.libraries import (
    any_of,
    apex_missing,
    inference_norm,
    liger_rows,
    quack_norm,
    quack_rows,
    same_as,
    weights_like_x,
    without_gaps,
)
from kbench.operators.rmsnorm.operator import NORM_WEIGHT, rmsnorm

if TYPE_CHECKING:
    from torch import Tensor


@rmsnorm.provider("liger", label="Liger", requires="liger_kernel", supports=liger_rows)
def liger(x: Tensor, weight: Tensor, *, eps: float, casting_mode: str | None = None) -> Tensor:
    """Liger-Kernel's Triton kernel. `casting_mode` is `llama`, Liger's default, or `gemma`: see `liger_casting`."""
    from liger_kernel.transformers.functional import liger_rms_norm

    if not x.numel():
        return torch.empty_like(x)
    y: Tensor = liger_rms_norm(x, weight, eps, 0.0, casting_mode or liger_casting(x, weight), in_place=False)
    return y


def liger_casting(x: Tensor, weight: Tensor) -> str:
    """Where Liger rounds. `llama` rounds to the dtype of x before it multiplies with the weight, and it rounds each term of the
    weight's gradient, which is too coarse for a gradient in float32. `gemma` computes everything in float32."""
    return "llama" if weight.dtype == x.dtype else "gemma"


def liger_saving(x: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, tuple[Any, ...]]:
    """The output, and the factor of each row and the launch for the backward pass."""
    from liger_kernel.ops import rms_norm_forward

    if not x.numel():
        return torch.empty_like(x), ()
    y, _, factors, *launch = rms_norm_forward(x.contiguous(), weight, eps, 0.0, liger_casting(x, weight), False)
    return y, (factors, launch)


rmsnorm.provider(
    "liger-in-place", label="Liger (in place)", requires="liger_kernel", supports=any_of(liger_rows, same_as("liger"))
)(liger)


@rmsnorm.backward("liger-in-place", saves=liger_saving, mutates={"gradient of y": "x"})
def liger_backward_in_place(dy: Tensor, x: Tensor, weight: Tensor, saved: tuple[Any, ...]) -> Tensor:
    """What Liger does by default: the gradient of x is written over that of y."""
    from liger_kernel.ops import rms_norm_backward

    if not x.numel():
        return torch.zeros_like(weight)
    factors, (block, warps, casting_mode) = saved
    dweight: Tensor
    _, dweight = rms_norm_backward(
        without_gaps("Liger", dy), x.contiguous(), weight, factors, 0.0, casting_mode, block, warps, True, False
    )
    return dweight


@rmsnorm.provider("quack", label="QuACK", requires="quack", devices=("cuda",), supports=quack_norm)
def quack(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """QuACK's CuTe-DSL kernel. Compiles on the first use of each (dtype, N)."""
    from quack.rmsnorm import rmsnorm_fwd

    y: Tensor = rmsnorm_fwd(quack_rows(x), weight, eps=eps)[0]
    return y


def quack_saving(x: Tensor, weight: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    """The output, and the factor of each row for the backward pass."""
    from quack.rmsnorm import rmsnorm_fwd

    y, _, factors = rmsnorm_fwd(quack_rows(x), weight, eps=eps, store_rstd=True)
    return y, factors


@rmsnorm.backward("quack", saves=quack_saving)
def quack_backward(dy: Tensor, x: Tensor, weight: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    from quack.rmsnorm import rmsnorm_bwd

    dx, dweight, *_ = rmsnorm_bwd(x, weight, quack_rows(dy), factors)
    return dx, dweight


@rmsnorm.provider(
    "flashinfer",
    label="FlashInfer",
    requires="flashinfer",
    devices=("cuda",),
    supports=inference_norm("FlashInfer", NORM_WEIGHT, "float16", "bfloat16"),
)
def flashinfer(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """FlashInfer's kernel. Compiles on its first use."""
    from flashinfer.norm import rmsnorm as flashinfer_rmsnorm

    if not x.numel():
        return torch.empty_like(x)
    y: Tensor = flashinfer_rmsnorm(x.contiguous(), weight, eps)
    return y


@rmsnorm.provider(
    "vllm",
    label="vLLM",
    requires="vllm",
    devices=("cuda",),
    supports=inference_norm("vLLM", NORM_WEIGHT),
)
def vllm(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """vLLM's CUDA kernel, as its layers call it: `_custom_ops` is what vLLM offers for a call without a layer."""
    from vllm._custom_ops import rms_norm

    y = x.new_empty(x.shape)
    if x.numel():
        rms_norm(y, x.contiguous(), weight, eps)
    return y


@rmsnorm.provider(
    "apex",
    label="Apex",
    devices=("cuda",),
    available=apex_missing("apex.normalization", "fused_layer_norm_cuda"),
    supports=weights_like_x("Apex", NORM_WEIGHT),
)
def apex(x: Tensor, weight: Tensor, *, eps: float) -> Tensor:
    """Apex's CUDA kernel."""
    from apex.normalization.fused_layer_norm import fused_rms_norm_affine

    y: Tensor = fused_rms_norm_affine(x, weight, x.shape[-1:], eps)
    return y
