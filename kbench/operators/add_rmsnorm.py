# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Residual sum and RMS normalisation, as between the layers of a language model: `h = x + residual`, and
`y = h / sqrt(mean(h^2) + eps) * weight` for each row of (M, N) matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor
from kbench.kernels import torch_fused, whole_rows
from kbench.results.case import BACKWARD, FORWARD, Case

try:
    import triton
    import triton.language as tl
except ImportError:  # then kbench reports the Triton providers as unavailable
    triton = None

Two = tuple[torch.Tensor, torch.Tensor]


def _reference(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    h = x + residual
    return h / (h.square().mean(-1, keepdim=True) + eps).sqrt() * weight, h


def _row_error(case: Case) -> float:
    """Units in the last place of float32. A sequential sum of N squares drifts by up to 2 * sqrt(N) units, and the root halves
    the drift. Eight more units are for the other steps."""
    return 8 + math.sqrt(case.N)


def _bytes(case: Case) -> int:
    """Forward: x and residual in, y and h out. Backward: the gradients of y and h, and h, in; the gradient of x out."""
    forward, backward = 4 * case.M * case.N + case.N, 4 * case.M * case.N + 2 * case.N
    return int({FORWARD: forward, BACKWARD: backward}.get(case.mode, forward + backward) * case.itemsize)


add_rmsnorm = Operator(
    "add_rmsnorm",
    axes=("M", "N"),
    inputs={
        "x": Tensor("M", "N"),
        "residual": Tensor("M", "N"),
        # its gradient is a sum over the rows: a sequential sum of M terms drifts by up to 2 * sqrt(M) units
        "weight": Tensor("N", tolerance=lambda case: _row_error(case) + 2 * math.sqrt(case.M)),
    },
    outputs={"y": Tensor("M", "N"), "h": Tensor("M", "N")},
    scalars={"eps": 1e-6},
    model_axes={"M": "tokens", "N": "hidden"},
    reference=_reference,
    gradients=("x", "weight"),  # the gradient of residual is that of x: kernels write it once
    rows="M",
    tolerance=_row_error,
    bytes=_bytes,
)


@add_rmsnorm.provider("torch-native", label="torch (add, rms_norm)", sources=whole_rows.SOURCES)
def torch_native(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    h = x + residual
    return torch.nn.functional.rms_norm(h, x.shape[-1:], weight, eps), h


@add_rmsnorm.provider("torch-inplace", label="torch (add_, rms_norm)", mutates={"residual": "h"})
def torch_inplace(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(residual.add_(x), x.shape[-1:], weight, eps)


def naive(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    """The function that torch.compile fuses. It computes in float32 and rounds each output once."""
    h = x.float() + residual.float()
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype), h.to(x.dtype)


@add_rmsnorm.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, eps: float) -> Callable[..., Two]:
    return partial(torch_fused.compiled(naive), eps=eps)


if triton:

    @triton.jit
    def add_rmsnorm_rows(y, h, x, residual, weight, h_stride, x_stride, residual_stride, N, eps, BLOCK: tl.constexpr):
        """One program per row, which stays in registers. `h` may be `residual`. Grid: M."""
        row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
        inside = columns < N
        v = tl.load(x + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        v += tl.load(residual + row * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(h + row * h_stride + columns, v, mask=inside)
        tl.store(y + row * N + columns, v * tl.rsqrt(tl.sum(v * v, 0) / N + eps) * w, mask=inside)


@add_rmsnorm.provider("triton", label="Triton (row)", requires="triton", supports=whole_rows.long_rows)
def triton_row(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> Two:
    h = x.new_empty(x.shape)
    return _launch(h, x, residual, weight, eps), h


@add_rmsnorm.provider("triton-inplace", requires="triton", supports=whole_rows.long_rows, mutates={"residual": "h"})
def triton_inplace(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, *, eps: float) -> torch.Tensor:
    return _launch(whole_rows.known_dense(residual), x, residual, weight, eps)


def _launch(h: torch.Tensor, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    (M, N), x, residual = x.shape, whole_rows.dense(x), whole_rows.dense(residual)
    y = x.new_empty(M, N)
    if y.numel():
        tensors, strides = (y, h, x, residual, weight.contiguous()), (h.stride(0), x.stride(0), residual.stride(0))
        add_rmsnorm_rows[(M,)](*tensors, *strides, N, eps, **whole_rows.launch(N))
    return y
