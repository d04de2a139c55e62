"""Cross-entropy in CUDA C++: the losses and the gradients of the logits in one kernel, for mode full, out of place
and over the logits. It is in `cross_entropy.cu`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kbench.kernels import whole_rows
from kbench.kernels.cuda_source import CudaSource
from kbench.operators.cross_entropy.operator import cross_entropy
from kbench.results.case import FULL

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.results.case import Case

SOURCE = CudaSource(Path(__file__).with_name("cross_entropy.cu"))


def _declines(case: Case) -> str | None:
    return None if case.mode == FULL else "it computes losses and gradients together; measure it in mode full"


@cross_entropy.provider(
    "cuda",
    label="CUDA",
    devices=("cuda",),
    available=SOURCE.missing_tools,
    supports=_declines,
    sources=(*SOURCE.files, *whole_rows.SOURCES),
)
def cuda(logits: Tensor, labels: Tensor) -> Tensor:
    """Reads the logits once, and writes their gradients once. It has no label smoothing."""
    return cuda_full(torch.ones(logits.shape[0], device=logits.device), logits, labels)[0]


@cross_entropy.full("cuda")
def cuda_full(d_loss: Tensor, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    loss = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    d_logits = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    _kernel()((d_loss.contiguous(), whole_rows.dense(logits), labels.contiguous()), (loss, d_logits))
    return loss, d_logits


cross_entropy.provider(
    "cuda-in-place",
    label="CUDA (in place)",
    devices=("cuda",),
    available=SOURCE.missing_tools,
    supports=_declines,
    sources=(*SOURCE.files, *whole_rows.SOURCES),
)(cuda)


@cross_entropy.full("cuda-in-place", mutates="logits")
def cuda_full_in_place(d_loss: Tensor, logits: Tensor, labels: Tensor) -> tuple[Tensor, None]:
    """Reads the logits once, and writes their gradients over them."""
    loss = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    _kernel()((d_loss.contiguous(), whole_rows.known_dense(logits), labels.contiguous()), (loss, logits))
    return loss, None


@functools.cache
def _kernel() -> Callable[..., None]:
    return SOURCE.kernel("cross_entropy_full", eps=0.0)
