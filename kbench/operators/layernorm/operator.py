"""Layer normalisation of the rows of an (M, N) matrix: `y = (x - mean) / sqrt(var + eps) * weight + bias`."""

from __future__ import annotations

import math

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import SAME, Tensor
from kbench.kernels.libraries import (
    any_of,
    forward_only,
    liger_rows,
    only_dtypes,
    quack_norm,
    quack_rows,
    weights_in_float32,
)
from kbench.kernels.torch_fused import add_compiled
from kbench.results.case import FORWARD, Case


def _reference(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    rstd = 1 / ((x - mean).square().mean(-1, keepdim=True) + eps).sqrt()
    # not (x - mean) * rstd, which is exactly 0 for N = 1: kernels that multiply first are off by some units of x * rstd
    return (x * rstd - mean * rstd) * weight + bias


def _row_error(case: Case) -> float:
    """Units in the last place of float32. The sequential sum of N terms for the mean drifts by up to 2 * sqrt(N) units. The
    root halves the drift of the sum for the variance. Eight units are for the other steps."""
    return 8 + 2 * math.sqrt(case.N)


def _column_error(case: Case) -> float:
    """The gradients of weight and bias are sums over rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units."""
    return _row_error(case) + 2 * math.sqrt(case.M)


NORM_WEIGHT = Tensor("N", dtype="weight_dtype", tolerance=_column_error)

layernorm = Operator(
    "layernorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "weight": NORM_WEIGHT,
        "bias": NORM_WEIGHT,
    },
    outputs={"y": Tensor("M", "N")},
    scalars={"eps": 1e-5},
    choices={"weight_dtype": (SAME, "float32")},  # models often keep the weights of norms in float32
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight", "bias"),
    rows="M",
    tolerance=_row_error,
)


def _float32_on_host(case: Case) -> str | None:
    if case.mode == FORWARD or case.dtype == "float32" or torch.accelerator.is_available():
        return None
    return f"on the host, torch adds up the gradients of weight and bias in {case.dtype}, which loses digits with every row"


def _other_weights_on_devices(case: Case) -> str | None:
    if NORM_WEIGHT.dtype_in(case) == case.dtype or not torch.accelerator.is_available():
        return None
    return "on accelerators, torch takes weights in the dtype of x only"


@layernorm.provider(
    "torch-native",
    supports=any_of(_float32_on_host, _other_weights_on_devices),
)
def torch_native(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


@layernorm.provider("torch-eager")
def torch_eager(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Several calls, each a pass over memory. They compute in float32, so that the result is rounded once, at the end."""
    v = x.float()
    v = v - v.mean(-1, keepdim=True)
    normalised = v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps)
    return (normalised * weight.float() + bias.float()).to(x.dtype)


add_compiled(layernorm, torch_eager)


@layernorm.provider("liger", requires="liger_kernel", supports=liger_rows)
def liger(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Liger-Kernel's Triton kernel."""
    from liger_kernel.transformers.functional import liger_layer_norm

    if not x.numel():
        return torch.empty_like(x)
    return liger_layer_norm(x, weight, bias, eps)


@layernorm.provider(
    "quack",
    requires="quack",
    devices=("cuda",),
    supports=any_of(weights_in_float32("QuACK", NORM_WEIGHT), quack_norm),
)
def quack(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    """QuACK's CuTe-DSL kernel. Compiles on the first use of each (dtype, N)."""
    from quack.rmsnorm import layernorm_fwd

    return layernorm_fwd(quack_rows(x), weight, bias, eps)


def quack_saving(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """The output, and the factor and the mean of each row for the backward pass."""
    from quack.rmsnorm import layernorm_fwd

    y, factors, means = layernorm_fwd(quack_rows(x), weight, bias, eps, return_rstd=True, return_mean=True)
    return y, (factors, means)


@layernorm.backward("quack", saves=quack_saving)
def quack_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    saved: tuple[torch.Tensor, torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    from quack.rmsnorm import layernorm_bwd

    dx, dweight, dbias = layernorm_bwd(x, weight, quack_rows(dy), *saved)
    return dx, dweight, dbias


@layernorm.provider(
    "flashinfer",
    requires="flashinfer",
    devices=("cuda",),
    supports=any_of(
        forward_only("FlashInfer"), only_dtypes("FlashInfer", "bfloat16"), weights_in_float32("FlashInfer", NORM_WEIGHT)
    ),
)
def flashinfer(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    """FlashInfer's kernel. Compiles on its first use."""
    from flashinfer.norm import layernorm as flashinfer_layernorm

    if not x.numel():
        return torch.empty_like(x)
    return flashinfer_layernorm(x.contiguous(), weight, bias, eps)
