"""Cross-entropy in CUDA C++, out of place, and in place: the gradients overwrite the logits. `cuda/` has the
kernels: `cross_entropy_forward.cu`, `cross_entropy_backward.cu` and, for both passes in one, `cross_entropy.cu`.

None has label smoothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from kbench.kernels.cuda_source import CudaSource
from kbench.kernels.libraries import same_as
from kbench.kernels.whole_rows import dense, known_dense
from kbench.operators.cross_entropy.operator import cross_entropy

if TYPE_CHECKING:
    from torch import Tensor

SOURCE = CudaSource(Path(__file__).parent / "cuda/cross_entropy_forward.cu")
BACKWARD_SOURCE = CudaSource(Path(__file__).parent / "cuda/cross_entropy_backward.cu")
FULL_SOURCE = CudaSource(Path(__file__).parent / "cuda/cross_entropy.cu")


@cross_entropy.provider("cuda", label="CUDA", devices=("cuda",), available=SOURCE.missing_tools)
def cuda(logits: Tensor, labels: Tensor, *, threads: int | None = None, blocks: int | None = None) -> Tensor:
    """Reads the logits once. `threads` and `blocks` are requests: so many threads in each of so many blocks per row."""
    return cuda_saving(logits, labels, threads=threads, blocks=blocks)[0]


def cuda_saving(
    logits: Tensor, labels: Tensor, *, threads: int | None = None, blocks: int | None = None
) -> tuple[Tensor, Tensor]:
    """The losses, and for the backward pass the maximum of each row and its sum of exp(x - maximum): (2, M) in float32."""
    rows = logits.shape[0]
    loss, saved = logits.new_empty(rows, dtype=torch.float32), logits.new_empty(2, rows, dtype=torch.float32)
    _forward(threads, blocks)((dense(logits), labels.contiguous()), (loss, saved))
    return loss, saved


@cross_entropy.backward("cuda", saves=cuda_saving)
def cuda_backward(d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor) -> Tensor:
    """Reads the logits once, and writes their gradients once."""
    d_logits = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    _backward()((d_loss.contiguous(), dense(logits), labels.contiguous(), saved), (d_logits,))
    return d_logits


@cross_entropy.full("cuda")
def cuda_full(d_loss: Tensor, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Reads the logits once, and writes their gradients once."""
    loss = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    d_logits = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
    _full()((d_loss.contiguous(), dense(logits), labels.contiguous()), (loss, d_logits))
    return loss, d_logits


cross_entropy.provider(
    "cuda-in-place",
    label="CUDA (in place)",
    devices=("cuda",),
    available=SOURCE.missing_tools,
    supports=same_as("cuda"),
)(cuda)


@cross_entropy.backward("cuda-in-place", saves=cuda_saving, mutates="logits")
def cuda_backward_in_place(d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor) -> None:
    _backward()((d_loss.contiguous(), known_dense(logits), labels.contiguous(), saved), (logits,))


@cross_entropy.full("cuda-in-place", mutates="logits")
def cuda_full_in_place(d_loss: Tensor, logits: Tensor, labels: Tensor) -> tuple[Tensor, None]:
    loss = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    _full()((d_loss.contiguous(), known_dense(logits), labels.contiguous()), (loss, logits))
    return loss, None


@functools.cache
def _forward(threads: int | None, blocks: int | None) -> Callable[..., None]:
    return SOURCE.kernel("cross_entropy_forward", threads=threads, blocks=blocks)


@functools.cache
def _backward() -> Callable[..., None]:
    return BACKWARD_SOURCE.kernel("cross_entropy_backward")


@functools.cache
def _full() -> Callable[..., None]:
    return FULL_SOURCE.kernel("cross_entropy_full")
