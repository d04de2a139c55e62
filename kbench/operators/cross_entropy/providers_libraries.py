"""Cross-entropy of other libraries. Each provider is available if its package is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from kbench.kernels.libraries import any_of, apex_missing, quack_reads, quack_rows, same_as
from kbench.operators.cross_entropy.operator import cross_entropy
from kbench.results.case import BACKWARD

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case


def _liger_declines(case: Case) -> str | None:
    if case.itemsize < 4:
        return f"for {case.dtype} logits, Liger returns a {case.dtype} loss, but the operator needs a float32 loss"
    if case.mode == BACKWARD:
        return "Liger computes the gradient in the forward pass: measure it in mode full"
    return None


@cross_entropy.provider("liger", label="Liger", requires="liger_kernel", supports=_liger_declines)
def liger(logits: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
    """Liger-Kernel's Triton kernel. It waits for the device in every call, to look at the labels."""
    from liger_kernel.transformers.functional import liger_cross_entropy

    if not logits.numel():
        return torch.empty(0, device=logits.device)
    loss: Tensor = liger_cross_entropy(logits.detach(), labels, label_smoothing=smoothing, reduction="none")
    return loss


@cross_entropy.full("liger")
def liger_full(d_loss: Tensor, logits: Tensor, labels: Tensor, *, smoothing: float) -> tuple[Tensor, Tensor]:
    """Liger writes gradients over the logits and then multiplies them into a new tensor, so it gets a copy of the logits."""
    from liger_kernel.transformers.functional import liger_cross_entropy

    if not logits.numel():
        return torch.empty(0, device=logits.device), torch.empty_like(logits)
    leaf = logits.clone().requires_grad_()
    with torch.enable_grad():
        loss = liger_cross_entropy(leaf, labels, label_smoothing=smoothing, reduction="none")
    (d_logits,) = torch.autograd.grad(loss, leaf, d_loss)
    return loss.detach(), d_logits


@cross_entropy.provider("quack", label="QuACK", requires="quack", devices=("cuda",), supports=quack_reads("V"))
def quack(logits: Tensor, labels: Tensor) -> Tensor:
    """QuACK's CuTe-DSL cross-entropy. Compiles on the first use of each (dtype, V)."""
    from quack.cross_entropy import cross_entropy_fwd

    loss: Tensor = cross_entropy_fwd(quack_rows(logits), labels)
    return loss


def quack_saving(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The loss, and the logarithm of each row's sum for the backward pass."""
    from quack.cross_entropy import cross_entropy_fwd

    loss, log_sum = cross_entropy_fwd(quack_rows(logits), labels, return_lse=True)
    return loss, log_sum


@cross_entropy.backward("quack", saves=quack_saving)
def quack_backward(d_loss: Tensor, logits: Tensor, labels: Tensor, log_sum: Tensor) -> Tensor:
    from quack.cross_entropy import cross_entropy_bwd

    gradient: Tensor = cross_entropy_bwd(logits, labels, d_loss, log_sum)
    return gradient


cross_entropy.provider(
    "quack-in-place",
    label="QuACK (in place)",
    requires="quack",
    devices=("cuda",),
    supports=any_of(same_as("quack"), quack_reads("V")),
)(quack)


@cross_entropy.backward("quack-in-place", saves=quack_saving, mutates="logits")
def quack_backward_in_place(d_loss: Tensor, logits: Tensor, labels: Tensor, log_sum: Tensor) -> None:
    from quack.cross_entropy import cross_entropy_bwd

    cross_entropy_bwd(logits, labels, d_loss, log_sum, inplace_backward=True)


@cross_entropy.provider(
    "apex", label="Apex", devices=("cuda",), available=apex_missing("apex.contrib.xentropy", "xentropy_cuda")
)
def apex(logits: Tensor, labels: Tensor, *, smoothing: float) -> Tensor:
    """Apex's CUDA kernel. The loss of 16-bit logits is in float32, as the operator needs it."""
    from apex.contrib.xentropy import SoftmaxCrossEntropyLoss

    ignored = -1  # no label: Apex sets the loss of this one to 0
    loss: Tensor = SoftmaxCrossEntropyLoss.apply(logits, labels, smoothing, ignored, logits.dtype != torch.float32)
    return loss
