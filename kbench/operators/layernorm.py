# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Layer normalisation of the rows of an (M, N) matrix: `y = (x - mean) / sqrt(var + eps) * weight + bias`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels import torch_fused, whole_rows
from kbench.results.case import FORWARD, Case

try:
    import triton
    import triton.language as tl
except ImportError:  # then kbench reports the provider `triton` as unavailable
    triton = None


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


layernorm = Operator(
    "layernorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "weight": Tensor("N", tolerance=_column_error),
        "bias": Tensor("N", tolerance=_column_error),
    },
    outputs={"y": Tensor("M", "N")},
    scalars={"eps": 1e-5},
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


@layernorm.provider(
    "torch-native", label="torch.nn.functional.layer_norm", supports=_float32_on_host, sources=whole_rows.SOURCES
)
def torch_native(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


@layernorm.provider("torch-eager", label="torch (eager, naive)")
def torch_eager(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Several calls, each a pass over memory. They compute in float32, so that the result is rounded once, at the end."""
    v = x.float()
    v = v - v.mean(-1, keepdim=True)
    normalised = v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps)
    return (normalised * weight.float() + bias.float()).to(x.dtype)


@layernorm.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, eps: float) -> Callable[..., torch.Tensor]:
    return partial(torch_fused.compiled(torch_eager), eps=eps)


if triton:

    @triton.jit
    def layernorm_rows(y, x, weight, bias, x_stride, N, eps, BLOCK: tl.constexpr):
        """One program per row, which stays in registers. Grid: M."""
        row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        inside = columns < N
        v = tl.load(x + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
        v = tl.where(inside, v - tl.sum(v, 0) / N, 0.0)
        tl.store(y + row * N + columns, v * tl.rsqrt(tl.sum(v * v, 0) / N + eps) * w + b, mask=inside)


@layernorm.provider("triton", label="Triton (row)", requires="triton", supports=whole_rows.long_rows)
def triton_row(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *, eps: float) -> torch.Tensor:
    """The forward pass only."""
    (M, N), x = x.shape, whole_rows.dense(x)
    y = x.new_empty(M, N)
    if y.numel():
        tensors = (y, x, weight.contiguous(), bias.contiguous())
        layernorm_rows[(M,)](*tensors, x.stride(0), N, eps, **whole_rows.launch(N))
    return y
