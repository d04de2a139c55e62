"""Cross-entropy in CUDA C++, out of place, and in place: the gradients overwrite the logits. The kernels are in
`cuda/losses.cu` and `cuda/gradients.cu`. None has label smoothing."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from kbench.kernels.cuda_source import CudaSource
from kbench.kernels.libraries import add_in_place
from kbench.kernels.matrices import dense, dense_like, new_rows, require_dense
from kbench.operators.cross_entropy.operator import cross_entropy

LOSSES = CudaSource(Path(__file__).parent / "cuda/losses.cu")
GRADIENTS = CudaSource(Path(__file__).parent / "cuda/gradients.cu")


@cross_entropy.provider("cuda", devices=("cuda",), available=LOSSES.missing_tools)
def cuda(logits: Tensor, labels: Tensor, *, blocks: int | None = None) -> Tensor:
    """Reads the logits once. `blocks` is a request: so many blocks per row."""
    loss = new_rows(logits, logits.shape[0])
    LOSSES.kernel("losses", blocks=blocks)((dense(logits), labels.contiguous()), (loss,))
    return loss


def cuda_saving(logits: Tensor, labels: Tensor, *, blocks: int | None = None) -> tuple[Tensor, Tensor]:
    """The losses, and for the backward pass the maximum of each row and its sum of exp(x - maximum): (2, M) in float32."""
    rows = logits.shape[0]
    loss, saved = new_rows(logits, rows), new_rows(logits, 2, rows)
    LOSSES.kernel("losses_saving", blocks=blocks)((dense(logits), labels.contiguous()), (loss, saved))
    return loss, saved


@cross_entropy.backward("cuda", saves=cuda_saving)
def cuda_backward(d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor) -> Tensor:
    """Reads the logits once, and writes their gradients once."""
    d_logits = dense_like(logits)
    inputs = d_loss.contiguous(), dense(logits), labels.contiguous(), saved
    GRADIENTS.kernel("gradients")(inputs, (d_logits,))
    return d_logits


@cross_entropy.full("cuda")
def cuda_full(d_loss: Tensor, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Reads the logits once, and writes their gradients once."""
    d_logits = dense_like(logits)
    return _both(d_loss, dense(logits), labels, d_logits), d_logits


add_in_place(cross_entropy, "cuda")


@cross_entropy.backward("cuda-in-place", saves=cuda_saving, mutates="logits")
def cuda_backward_in_place(d_loss: Tensor, logits: Tensor, labels: Tensor, saved: Tensor) -> None:
    inputs = d_loss.contiguous(), require_dense(logits), labels.contiguous(), saved
    GRADIENTS.kernel("gradients")(inputs, (logits,))


@cross_entropy.full("cuda-in-place", mutates="logits")
def cuda_full_in_place(d_loss: Tensor, logits: Tensor, labels: Tensor) -> tuple[Tensor, None]:
    return _both(d_loss, require_dense(logits), labels, logits), None


def _both(d_loss: Tensor, logits: Tensor, labels: Tensor, d_logits: Tensor) -> Tensor:
    """Write the gradients of the logits, which may be over the logits, and return the losses."""
    loss = new_rows(logits, logits.shape[0])
    GRADIENTS.kernel("losses_and_gradients")((d_loss.contiguous(), logits, labels.contiguous()), (loss, d_logits))
    return loss
