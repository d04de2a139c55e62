# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""RMS normalisation of the rows of an (M, N) matrix: `y = x / sqrt(mean(x^2) + eps) * weight`, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels import torch_fused, whole_rows
from kbench.results.case import Case

try:
    import triton
    import triton.language as tl
except ImportError:  # then kbench reports the provider `triton` as unavailable
    triton = None


def _reference(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def _row_error(case: Case) -> float:
    """Units in the last place of float32. A sequential sum of N squares drifts by up to 2 * sqrt(N) units, and the root halves
    the drift. Eight more units are for the division by N, the sum with eps, the root and the products."""
    return 8 + math.sqrt(case.N)


rmsnorm = Operator(
    "rmsnorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        # its gradient is a sum over the rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units
        "weight": Tensor("N", tolerance=lambda case: _row_error(case) + 2 * math.sqrt(case.M)),
    },
    outputs={"y": Tensor("M", "N")},
    scalars={"eps": 1e-6},
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight"),
    rows="M",
    tolerance=_row_error,
    scale=lambda case, y, x, weight: y,  # the squares are positive: nothing cancels in the forward pass
)


@rmsnorm.provider("torch-native", label="torch.nn.functional.rms_norm", sources=whole_rows.SOURCES)
def torch_native(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


@rmsnorm.provider("torch-eager", label="torch (eager, naive)")
def torch_eager(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    """Several calls, each a pass over memory. They compute in float32, so that the result is rounded once, at the end."""
    v = x.float()
    return (v * torch.rsqrt(v.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


@rmsnorm.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, eps: float) -> Callable[..., torch.Tensor]:
    return partial(torch_fused.compiled(torch_eager), eps=eps)


if triton:

    @triton.jit
    def forward_rows(y, rstd, x, weight, x_stride, N, eps, BLOCK: tl.constexpr):
        """One program per row, which stays in registers. Grid: M."""
        row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        v = tl.load(x + row * x_stride + columns, mask=columns < N, other=0.0).to(tl.float32)
        w = tl.load(weight + columns, mask=columns < N, other=0.0).to(tl.float32)
        factor = tl.rsqrt(tl.sum(v * v, 0) / N + eps)
        tl.store(rstd + row, factor)
        tl.store(y + row * N + columns, v * factor * w, mask=columns < N)

    @triton.jit
    def backward_rows(dx, sums, dy, x, weight, rstd, dy_stride, x_stride, M, N, BLOCK: tl.constexpr):
        """Each program takes every num_programs-th row, and stores its part of the weight's gradient in a row of `sums`."""
        columns = tl.arange(0, BLOCK)
        w = tl.load(weight + columns, mask=columns < N, other=0.0).to(tl.float32)
        total = tl.zeros((BLOCK,), tl.float32)
        for i in range(tl.program_id(0), M, tl.num_programs(0)):
            row = tl.cast(i, tl.int64)
            factor = tl.load(rstd + row)
            v = tl.load(x + row * x_stride + columns, mask=columns < N, other=0.0).to(tl.float32) * factor
            d = tl.load(dy + row * dy_stride + columns, mask=columns < N, other=0.0).to(tl.float32)
            total += d * v
            d *= w
            tl.store(dx + row * N + columns, (d - v * (tl.sum(d * v, 0) / N)) * factor, mask=columns < N)
        tl.store(sums + tl.program_id(0).to(tl.int64) * N + columns, total, mask=columns < N)


@rmsnorm.provider("triton", label="Triton (row)", requires="triton", supports=whole_rows.long_rows)
def triton_row(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return triton_saving(x, weight, eps=eps)[0]


def triton_saving(x: torch.Tensor, weight: torch.Tensor, *, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the factor of each row for the backward pass."""
    (M, N), x = x.shape, whole_rows.dense(x)
    y, rstd = x.new_empty(M, N), x.new_empty(M, dtype=torch.float32)
    if y.numel():
        forward_rows[(M,)](y, rstd, x, weight.contiguous(), x.stride(0), N, eps, **whole_rows.launch(N))
    return y, rstd


@rmsnorm.backward("triton", saves=triton_saving)
def triton_backward(dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor) -> list[torch.Tensor]:
    """Sums the gradient of the weight in two stages, always in the same order, so that it is deterministic."""
    (M, N), x, dy = x.shape, whole_rows.dense(x), whole_rows.dense(dy)
    dx, sums = x.new_empty(M, N), x.new_empty(whole_rows.resident_programs(x), N, dtype=torch.float32)
    if dx.numel():
        tensors, strides = (dx, sums, dy, x, weight.contiguous(), rstd), (dy.stride(0), x.stride(0))
        backward_rows[(len(sums),)](*tensors, *strides, M, N, **whole_rows.launch(N))
    return [dx, sums.sum(0).to(weight.dtype)]
