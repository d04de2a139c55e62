"""Cross-entropy of logits (M, V) and integer labels, with label smoothing, forward and backward. Each row has a loss."""

from __future__ import annotations

import math

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor, integers
from kbench.kernels.libraries import add_in_place, quack_reads, quack_rows
from kbench.kernels.torch_fused import add_compiled
from kbench.results.case import BACKWARD, FORWARD, Case
from kbench.results.vocabulary import EdgeInput


def _reference(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    top = logits.detach().amax(-1, keepdim=True)
    loss = (logits - top).exp().sum(-1).log() + top[:, 0] - (1 - smoothing) * logits.gather(1, labels[:, None])[:, 0]
    return loss - smoothing * logits.mean(-1) if smoothing else loss


def _bytes(case: Case) -> int:
    """The logits are read once in every mode, also in `full`: a row's gradient can follow as soon as the row is summed up. The
    gradients of the logits are written once. A row also has a label, and a loss, its gradient, or both."""
    logits = case.M * case.V * case.itemsize
    if case.mode == FORWARD:
        return int(logits + case.M * (8 + 4))
    return int(2 * logits + case.M * (8 + 4 + (0 if case.mode == BACKWARD else 4)))


def _minus_inf_head(case: Case, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Masks most of a row from its beginning, but not its label."""
    first = x.shape[1] - x.shape[1] // 8 - 1
    return x.index_fill(1, torch.arange(first, device=x.device), -math.inf), labels.clamp(min=first)


cross_entropy = Operator(
    "cross_entropy",
    axes=("M", "V"),
    inputs={  # the tolerance is that of the gradient: a sequential sum of V terms drifts by up to 2 * sqrt(V) units
        "logits": Tensor("M", "V", tolerance=lambda case: 8 + 2 * math.sqrt(case.V)),
        "labels": Tensor("M", dtype="int64", fill=integers("V")),
    },
    outputs={"loss": Tensor("M", dtype="float32")},
    scalars={"smoothing": 0.0},
    reference=_reference,
    gradients=("logits",),
    rows="M",
    bytes=_bytes,
    model_axes={"M": "tokens", "V": "vocabulary"},
    # The logarithm turns the drift of the sum into units in the last place of 1. Those of the loss are larger, about 8 times if
    # V is large, and kbench allows 4 times this number. If it were larger, a kernel could leave out a block of V unnoticed.
    tolerance=lambda case: 4 + math.sqrt(case.V) / 16,
    edges={
        EdgeInput.LARGE_OFFSET: lambda case, x, labels: (x + 1e3, labels),
        EdgeInput.ASCENDING_ROWS: lambda case, x, labels: (x.sort(-1).values, labels),
        EdgeInput.MINUS_INF_HEAD: _minus_inf_head,
        EdgeInput.MINUS_INF_COLUMN: lambda case, x, labels: (x.index_fill(1, labels[:1], -math.inf), labels),
        EdgeInput.NAN: lambda case, x, labels: (x.flatten().index_fill(0, labels[:1], math.nan).view_as(x), labels),
        EdgeInput.STRIDED_ROWS: lambda case, x, labels: (torch.nn.functional.pad(x, (0, 3))[:, :-3], labels),
        EdgeInput.TRANSPOSED: lambda case, x, labels: (x.t().contiguous().t(), labels),
        EdgeInput.NO_ROWS: lambda case, x, labels: (x[:0], labels[:0]),
    },
)


@cross_entropy.provider("torch-native")
def torch_native(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    """In float32: torch would round the loss of 16-bit logits to 16 bits."""
    return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=smoothing)


@cross_entropy.provider("torch-eager")
def torch_eager(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    """Several calls, each a pass over memory, in float32."""
    x = logits.float()
    top = x.detach().amax(-1, keepdim=True)
    loss = (x - top).exp().sum(-1).log() + top[:, 0] - (1 - smoothing) * x.gather(1, labels[:, None])[:, 0]
    return loss - smoothing * x.mean(-1) if smoothing else loss


add_compiled(cross_entropy, torch_eager)


def _liger_declines(case: Case) -> str | None:
    if case.itemsize < 4:
        return f"for {case.dtype} logits, Liger returns a {case.dtype} loss, but the operator needs a float32 loss"
    if case.mode == BACKWARD:
        return "Liger computes the gradient in the forward pass: measure it in mode full"
    return None


@cross_entropy.provider("liger", requires="liger_kernel", supports=_liger_declines)
def liger(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    """Liger-Kernel's Triton kernel. It waits for the device in every call, to look at the labels."""
    from liger_kernel.transformers.functional import liger_cross_entropy

    if not logits.numel():
        return torch.empty(0, device=logits.device)
    return liger_cross_entropy(logits.detach(), labels, label_smoothing=smoothing, reduction="none")


@cross_entropy.full("liger")
def liger_full(
    d_loss: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Liger writes gradients over the logits and then multiplies them into a new tensor, so it gets a copy of the logits."""
    from liger_kernel.transformers.functional import liger_cross_entropy

    if not logits.numel():
        return torch.empty(0, device=logits.device), torch.empty_like(logits)
    leaf = logits.clone().requires_grad_()
    with torch.enable_grad():
        loss = liger_cross_entropy(leaf, labels, label_smoothing=smoothing, reduction="none")
    (d_logits,) = torch.autograd.grad(loss, leaf, d_loss)
    return loss.detach(), d_logits


@cross_entropy.provider("quack", requires="quack", devices=("cuda",), supports=quack_reads("V"))
def quack(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """QuACK's CuTe-DSL cross-entropy. Compiles on the first use of each (dtype, V)."""
    from quack.cross_entropy import cross_entropy_fwd

    return cross_entropy_fwd(quack_rows(logits), labels)


def quack_saving(logits: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss, and the logarithm of each row's sum for the backward pass."""
    from quack.cross_entropy import cross_entropy_fwd

    loss, log_sum = cross_entropy_fwd(quack_rows(logits), labels, return_lse=True)
    return loss, log_sum


@cross_entropy.backward("quack", saves=quack_saving)
def quack_backward(
    d_loss: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor, log_sum: torch.Tensor
) -> torch.Tensor:
    from quack.cross_entropy import cross_entropy_bwd

    return cross_entropy_bwd(logits, labels, d_loss, log_sum)


add_in_place(cross_entropy, "quack")


@cross_entropy.backward("quack-in-place", saves=quack_saving, mutates="logits")
def quack_backward_in_place(
    d_loss: torch.Tensor, logits: torch.Tensor, labels: torch.Tensor, log_sum: torch.Tensor
) -> None:
    from quack.cross_entropy import cross_entropy_bwd

    cross_entropy_bwd(logits, labels, d_loss, log_sum, inplace_backward=True)
