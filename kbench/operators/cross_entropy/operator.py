"""Cross-entropy of logits (M, V) and integer labels, with label smoothing, forward and backward. Each row has a loss."""

from __future__ import annotations

import math

import torch

from kbench.contract.operator import Operator
from kbench.contract.tensor import Tensor, integers
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
