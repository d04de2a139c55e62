"""Layer normalisation of other libraries. Each provider is available if its package is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kbench.kernels.libraries import (
    any_of,
    apex_missing,
    forward_only,
    liger_rows,
    only_dtypes,
    quack_norm,
    quack_rows,
    weights_in_float32,
    weights_like_x,
)
from kbench.operators.layernorm.operator import NORM_WEIGHT, layernorm

if TYPE_CHECKING:
    from torch import Tensor

    Three = tuple[Tensor, Tensor, Tensor]


@layernorm.provider("liger", label="Liger", requires="liger_kernel", supports=liger_rows)
def liger(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> Tensor:
    """Liger-Kernel's Triton kernel."""
    from liger_kernel.transformers.functional import liger_layer_norm

    if not x.numel():
        return torch.empty_like(x)
    y: Tensor = liger_layer_norm(x, weight, bias, eps)
    return y


@layernorm.provider(
    "quack",
    label="QuACK",
    requires="quack",
    devices=("cuda",),
    supports=any_of(weights_in_float32("QuACK", NORM_WEIGHT), quack_norm),
)
def quack(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> Tensor:
    """QuACK's CuTe-DSL kernel. Compiles on the first use of each (dtype, N)."""
    from quack.rmsnorm import layernorm_fwd

    y: Tensor = layernorm_fwd(quack_rows(x), weight, bias, eps)
    return y


def quack_saving(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The output, and the factor and the mean of each row for the backward pass."""
    from quack.rmsnorm import layernorm_fwd

    y, factors, means = layernorm_fwd(quack_rows(x), weight, bias, eps, return_rstd=True, return_mean=True)
    return y, (factors, means)


@layernorm.backward("quack", saves=quack_saving)
def quack_backward(dy: Tensor, x: Tensor, weight: Tensor, bias: Tensor, saved: tuple[Tensor, Tensor]) -> Three:
    from quack.rmsnorm import layernorm_bwd

    dx, dweight, dbias = layernorm_bwd(x, weight, quack_rows(dy), *saved)
    return dx, dweight, dbias


@layernorm.provider(
    "flashinfer",
    label="FlashInfer",
    requires="flashinfer",
    devices=("cuda",),
    supports=any_of(
        forward_only("FlashInfer"), only_dtypes("FlashInfer", "bfloat16"), weights_in_float32("FlashInfer", NORM_WEIGHT)
    ),
)
def flashinfer(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> Tensor:
    """FlashInfer's kernel. Compiles on its first use."""
    from flashinfer.norm import layernorm as flashinfer_layernorm

    if not x.numel():
        return torch.empty_like(x)
    y: Tensor = flashinfer_layernorm(x.contiguous(), weight, bias, eps)
    return y


@layernorm.provider(
    "apex",
    label="Apex",
    devices=("cuda",),
    available=apex_missing("apex.normalization", "fused_layer_norm_cuda"),
    supports=weights_like_x("Apex", NORM_WEIGHT),
)
def apex(x: Tensor, weight: Tensor, bias: Tensor, *, eps: float) -> Tensor:
    """Apex's CUDA kernel."""
    from apex.normalization.fused_layer_norm import fused_layer_norm_affine

    y: Tensor = fused_layer_norm_affine(x, weight, bias, x.shape[-1:], eps)
    return y
