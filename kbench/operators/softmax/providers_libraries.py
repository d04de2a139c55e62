"""Softmax of other libraries. Each provider is available if its package is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kbench.kernels.libraries import liger_rows, quack_matrix, quack_reads
from kbench.operators.softmax.operator import softmax

if TYPE_CHECKING:
    from torch import Tensor


@softmax.provider("liger", label="Liger", requires="liger_kernel", supports=liger_rows)
def liger(x: Tensor) -> Tensor:
    """Liger-Kernel's Triton softmax. Copies an input that is not contiguous."""
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    if not x.numel():
        return torch.empty_like(x)
    out: Tensor = LigerSoftmaxFunction.apply(x)
    return out


@softmax.provider(
    "quack",
    label="QuACK",
    requires="quack",
    devices=("cuda",),
    supports=quack_reads("N", 16),
)
def quack(x: Tensor) -> Tensor:
    """QuACK's CuTe-DSL softmax, forward only. Compiles on the first use of each (dtype, N)."""
    from quack.softmax import softmax_fwd

    if not x.numel():
        return torch.empty_like(x)
    out: Tensor = softmax_fwd(quack_matrix(x))
    return out


@softmax.backward("quack", saves=["y"])
def quack_backward(dy: Tensor, x: Tensor, saved: tuple[Tensor]) -> Tensor:
    from quack.softmax import softmax_bwd

    (y,) = saved
    if not y.numel():
        return torch.empty_like(y)
    dx: Tensor = softmax_bwd(dy, y)
    return dx
