"""Cross-entropy in torch: as torch offers it, step by step, and compiled."""

from __future__ import annotations

from functools import partial

import torch

from kbench.kernels import torch_fused
from kbench.operators.cross_entropy.operator import cross_entropy
from kbench.results.case import Case


@cross_entropy.provider("torch-native", label="torch.nn.functional.cross_entropy")
def torch_native(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    """In float32: torch would round the loss of 16-bit logits to 16 bits."""
    return torch.nn.functional.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=smoothing)


@cross_entropy.provider("torch-eager", label="torch (eager, naive)")
def torch_eager(logits: torch.Tensor, labels: torch.Tensor, *, smoothing: float) -> torch.Tensor:
    """Several calls, each a pass over memory, in float32."""
    x = logits.float()
    top = x.detach().amax(-1, keepdim=True)
    loss = (x - top).exp().sum(-1).log() + top[:, 0] - (1 - smoothing) * x.gather(1, labels[:, None])[:, 0]
    return loss - smoothing * x.mean(-1) if smoothing else loss


@cross_entropy.provider("torch-compile", label="torch.compile", factory=True)
def torch_compile(case: Case, *, smoothing: float) -> partial[torch.Tensor]:
    return partial(torch_fused.compiled(torch_eager), smoothing=smoothing)
