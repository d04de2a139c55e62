"""RMS normalisation of the rows of an (M, N) matrix: `y = x / sqrt(mean(x^2) + eps) * weight`, forward and backward."""

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
from kbench.results.case import Case


def _reference(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def row_error(case: Case) -> float:
    """Units in the last place of float32. A sequential sum of N squares drifts by up to 2 * sqrt(N) units, and the root halves
    the drift. Eight more units are for the division by N, the sum with eps, the root and the products."""
    return 8 + math.sqrt(case.N)


# its gradient is a sum over the rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units
NORM_WEIGHT = Tensor("N", dtype="weight_dtype", tolerance=lambda case: row_error(case) + 2 * math.sqrt(case.M))

rmsnorm = Operator(
    "rmsnorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "weight": NORM_WEIGHT,
    },
    outputs={"y": Tensor("M", "N")},
    scalars={"eps": 1e-6},
    choices={"weight_dtype": (SAME, "float32")},  # models often keep the weights of norms in float32
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight"),
    rows="M",
    tolerance=row_error,
    scale=lambda case, y, x, weight: y,  # the squares are positive: nothing cancels in the forward pass
)


@rmsnorm.provider("torch-native")
def torch_native(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


@rmsnorm.provider("torch-eager")
def torch_eager(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Several calls, each a pass over memory. They compute in float32, so that the result is rounded once, at the end."""
    v = x.float()
    return (v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


add_compiled(rmsnorm, torch_eager)


@rmsnorm.provider("liger", requires="liger_kernel", supports=liger_rows)
def liger(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Liger-Kernel's Triton kernel."""
    from liger_kernel.transformers.functional import liger_rms_norm

    if not x.numel():
        return torch.empty_like(x)
    return liger_rms_norm(x, weight, eps, 0.0, liger_casting(x, weight), in_place=False)


def liger_saving(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """The output, and the factor of each row and the launch for the backward pass."""
    from liger_kernel.ops import rms_norm_forward

    if not x.numel():
        return torch.empty_like(x), ()
    y, _, factors, *launch = rms_norm_forward(x.contiguous(), weight, eps, 0.0, liger_casting(x, weight), False)
    return y, (factors, launch)


add_in_place(rmsnorm, "liger")


@rmsnorm.backward("liger-in-place", saves=liger_saving, mutates={"gradient of y": "x"})
def liger_backward_in_place(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, saved: tuple[Any, ...]
) -> torch.Tensor:
    """What Liger does by default: the gradient of x is written over that of y."""
    from liger_kernel.ops import rms_norm_backward

    if not x.numel():
        return torch.zeros_like(weight)
    factors, (block, warps, casting_mode) = saved
    dweight: torch.Tensor
    _, dweight = rms_norm_backward(
        without_gaps("Liger", dy), x.contiguous(), weight, factors, 0.0, casting_mode, block, warps, True, False
    )
    return dweight


@rmsnorm.provider("quack", requires="quack", devices=("cuda",), supports=quack_norm)
def quack(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    """QuACK's CuTe-DSL kernel. Compiles on the first use of each (dtype, N)."""
    from quack.rmsnorm import rmsnorm_fwd

    return rmsnorm_fwd(quack_rows(x), weight, eps=eps)[0]


def quack_saving(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the factor of each row for the backward pass."""
    from quack.rmsnorm import rmsnorm_fwd

    y, _, factors = rmsnorm_fwd(quack_rows(x), weight, eps=eps, store_rstd=True)
    return y, factors


@rmsnorm.backward("quack", saves=quack_saving)
def quack_backward(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, factors: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    from quack.rmsnorm import rmsnorm_bwd

    dx, dweight, *_ = rmsnorm_bwd(x, weight, quack_rows(dy), factors)
    return dx, dweight


@rmsnorm.provider(
    "flashinfer",
    requires="flashinfer",
    devices=("cuda",),
    supports=inference_norm("FlashInfer", NORM_WEIGHT, "float16", "bfloat16"),
)
def flashinfer(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    """FlashInfer's kernel. Compiles on its first use."""
    from flashinfer.norm import rmsnorm as flashinfer_rmsnorm

    if not x.numel():
        return torch.empty_like(x)
    return flashinfer_rmsnorm(x.contiguous(), weight, eps)


@rmsnorm.provider(
    "vllm",
    requires="vllm",
    devices=("cuda",),
    supports=inference_norm("vLLM", NORM_WEIGHT),
)
def vllm(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    """vLLM's CUDA kernel, as its layers call it: `_custom_ops` is what vLLM offers for a call without a layer."""
    from vllm._custom_ops import rms_norm

    y = x.new_empty(x.shape)
    if x.numel():
        rms_norm(y, x.contiguous(), weight, eps)
    return y
